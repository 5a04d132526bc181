"""Every option of the plugin, each with its ini twin.

This is loaded at every pytest start and only registers text; `settings` parses.
"""

from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option: `--infra-NAME` on the command line, `infra_name` in the ini file.

    `alone` is the value of an option that may stand without one.
    """

    name: str
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: str = ""
    is_flag: bool = False
    is_list: bool = False
    is_sweep: bool = False
    alone: str = ""

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return f"--infra-{self.name}"

    @property
    def dest(self) -> str:
        """The attribute of `config.option`, and the name in the ini file."""
        return "infra_" + self.name.replace("-", "_")


OPTIONS = (
    OptionSpec(
        "multipliers",
        "run every task with memory and CPU limits scaled by each of these (1,1.5,3,uncapped)",
        metavar="LIST",
        is_sweep=True,
    ),
    OptionSpec("memory-multipliers", "vary the memory limit alone", metavar="LIST", is_sweep=True),
    OptionSpec("cpu-multipliers", "vary the CPU limit alone", metavar="LIST", is_sweep=True),
    OptionSpec("timeout-multipliers", "vary the agent's time", metavar="LIST", is_sweep=True),
    OptionSpec(
        "samples",
        "how often each task runs in each parameter set (default: 1)",
        metavar="K",
        is_sweep=True,
    ),
    OptionSpec(
        "aa",
        "run the baseline a second time under another id (1x-aa): what two identical parameter "
        "sets differ by",
        is_flag=True,
        is_sweep=True,
    ),
    OptionSpec(
        "ceiling",
        "the parameter set up to which success must not change: what a higher kill threshold adds "
        "beyond the repair of crashes is tested there first, and covers the sets below it "
        "(default: the largest finite multiplier up to 3x)",
        metavar="SET",
    ),
    OptionSpec(
        "until-decided",
        "look two or three times at a growing study, and skip what is left once every parameter "
        "set differs from the baseline or is equivalent to it",
        is_flag=True,
        is_sweep=True,
    ),
    OptionSpec(
        "max-samples",
        "the most samples per task and parameter set that --infra-until-decided may run",
        metavar="K",
        is_sweep=True,
    ),
    OptionSpec(
        "order",
        "interleaved: all parameter sets of a task together, in random order; file: likewise, but "
        "tasks in the order in which they are collected; sequential: one parameter set after "
        "another",
        choices=("interleaved", "file", "sequential"),
        default="interleaved",
    ),
    OptionSpec("seed", "seed of the order and of the agents' seeds", metavar="N"),
    OptionSpec(
        "backend",
        "where trials run: auto, docker, local, or the name of a backend that another package adds "
        "(default: auto, which is docker if it answers, else local)",
        metavar="NAME",
        default="auto",
    ),
    OptionSpec(
        "agent",
        "what works on the tasks: oracle, nop, a command line run in the sandbox, module:function, "
        "which is called on this host, or hook[:NAME], which is a conftest's own "
        "pytest_infra_run_agent (default: oracle, or hook where there is one)",
        metavar="AGENT",
    ),
    OptionSpec(
        "swebench",
        "run the instances of a SWE-bench data set (.json, .jsonl or .parquet); the agent works in "
        "/testbed, and its git diff is verified; needs pytest-infranoise[swebench]",
        metavar="FILE",
        is_sweep=True,
    ),
    OptionSpec(
        "predictions",
        "with --infra-swebench: the agent applies the patches of this file (.json or .jsonl); "
        "gold for the data set's own patches, which are what runs without any agent",
        metavar="FILE",
    ),
    OptionSpec(
        "swebench-image",
        "with --infra-swebench: where images are, as local/{instance_id}:latest (the id in lower "
        "case) or with {docker_id} (default: as the data set says, or as published)",
        metavar="TEMPLATE",
    ),
    OptionSpec(
        "agent-files",
        "put a host file or folder into the sandbox for the agent; repeatable",
        metavar="HOST:SANDBOX",
        is_list=True,
    ),
    OptionSpec(
        "agent-env",
        "pass a host variable to every step by name; its value is never written; repeatable",
        metavar="NAME",
        is_list=True,
    ),
    OptionSpec(
        "agent-install",
        "a command, or a script on this host, that is run once as root in a container of each "
        "task's image before any trial, after --infra-agent-files were put in; what comes out is "
        "kept as an image and used again",
        metavar="COMMAND",
    ),
    OptionSpec(
        "model-api-retries",
        "how often a trial is tried again whose agent was refused by its model's provider (rate "
        "limit, overload, rejected key); such attempts are in no rate",
        metavar="N",
        default="2",
    ),
    OptionSpec(
        "model-api-pause",
        "how long to wait before such a trial is tried again; doubled each time",
        metavar="SECONDS",
        default="30",
    ),
    OptionSpec(
        "engine-timeout",
        "how long an engine that has stopped to answer is waited for, before the session ends and "
        "leaves the other trials for --infra-resume; what it cost meanwhile is in no rate",
        metavar="SECONDS",
        default="300",
    ),
    OptionSpec(
        "max-consecutive-infra",
        "start no further trial once so many in a row have ended by the same failure of the "
        "provider (sandbox_start, image, worker_lost ...); 0 is never",
        metavar="N",
        default="10",
    ),
    OptionSpec(
        "max-cost",
        "start no further trial once the costs that this session's trials have reported "
        "(usage.json) reach this",
        metavar="USD",
    ),
    OptionSpec(
        "leftovers",
        "what happens to processes the agent left running before verification",
        choices=("keep", "kill"),
        default="keep",
    ),
    OptionSpec(
        "enforcement",
        "how limits are enforced: hard (by the kernel, at once), lenient:SECONDS (an overrun is "
        "tolerated for that long, then everything is killed), or a whole method by name, with the "
        "multipliers that belong to it: k8s-1x, k8s-1x-3x, harbor-docker",
        metavar="METHOD",
        default="hard",
    ),
    OptionSpec(
        "oom-policy",
        "process: a kill takes one process and the trial goes on; container: the first kill ends "
        "the trial",
        choices=("process", "container"),
        default="process",
    ),
    OptionSpec(
        "visible",
        "which CPUs programs in the sandbox see: the host's, or as many as the CPU limit allows "
        "(whole cores become a cpuset, thread variables follow the limit)",
        choices=("host", "limit"),
        default="host",
    ),
    OptionSpec(
        "pass-threshold",
        "the reward from which on a trial is passed; a lower one is kept as its score",
        metavar="REWARD",
        default="1",
    ),
    OptionSpec(
        "exclude",
        "leave tasks out of the study by name or pattern (*, ?), a LIST or repeated; the summary, "
        "manifest and report name them",
        metavar="PATTERN",
        is_list=True,
    ),
    OptionSpec(
        "screen-oracle",
        "first run each task's reference solution uncapped, and leave tasks that it does not solve "
        "out of the study, by name and reason",
        is_flag=True,
    ),
    OptionSpec("study", "the study's own folder (default: .infranoise/<id>)", metavar="DIR"),
    OptionSpec(
        "resume",
        "go on with the study in --infra-study: run what has no record, with the study's own "
        "options; refused if tasks, sets, agent or enforcement changed, unless =anyway",
        choices=("check", "anyway"),
        alone="check",
        is_sweep=True,
    ),
    OptionSpec(
        "retry-infra-errors",
        "with --infra-resume: try trials that ended by an infrastructure error once more; their "
        "first attempts stay and are what counts",
        is_flag=True,
    ),
    OptionSpec(
        "shard",
        "run one of several parts of the study, whole blocks, as 2/5; every part needs the same "
        "--infra-seed; `infranoise merge` puts them together",
        metavar="I/N",
    ),
    OptionSpec(
        "note",
        "a fact for the manifest and the disclosure card, as inference-endpoint=...; repeatable",
        metavar="KEY=VALUE",
        is_list=True,
    ),
    OptionSpec(
        "report",
        "write the report to this file at the end, as .html, .md, .json or .csv; repeatable",
        metavar="FILE",
        is_list=True,
    ),
    OptionSpec("memory-budget", "memory that all trials may reserve together", metavar="SIZE"),
    OptionSpec("cpu-budget", "cores that all trials may reserve together", metavar="CORES"),
    OptionSpec(
        "admit",
        "what a trial reserves before it starts: its guarantee, or its kill threshold (limit)",
        choices=("guarantee", "limit"),
        default="guarantee",
    ),
    OptionSpec(
        "clamp",
        "accept limits that the engine bounds, and parameter sets that come out equal",
        is_flag=True,
    ),
    OptionSpec(
        "exit",
        "pytest: a trial that did not pass fails the session; study: trials are data",
        choices=("pytest", "study"),
        default="pytest",
    ),
    OptionSpec(
        "gate",
        "what the study must show, as 'infra_error_rate<=2%@3x', 'lift(3x)~0+-3pp', 'no-oom@1x' or "
        "'recommended'; a gate that failed or could not be decided fails the session; repeatable",
        metavar="GATE",
        is_list=True,
    ),
    OptionSpec(
        "accept-engine",
        "accept a recommendation that the local backend or the watchdog measured",
        is_flag=True,
    ),
    OptionSpec("dry-run", "list the trials with their limits and run nothing", is_flag=True),
    OptionSpec("default-memory", "memory of tasks and markers that declare none", metavar="SIZE"),
    OptionSpec("default-cpus", "cores of tasks and markers that declare none", metavar="CORES"),
    OptionSpec(
        "build",
        "when a Dockerfile is built although the task names a docker_image beside it: where that "
        "cannot be had, always or never; without a docker_image it is built in any case",
        choices=("missing", "always", "never"),
        default="never",
    ),
    OptionSpec("default-image", "image of markers that name none", metavar="IMAGE"),
    OptionSpec(
        "default-timeout",
        "seconds for markers that name no timeout, and for the agent on SWE-bench instances",
        metavar="SECONDS",
    ),
)


SPECS = {spec.name: spec for spec in OPTIONS}
SWEEP_INI = tuple(spec.dest for spec in OPTIONS if spec.is_sweep and not spec.is_flag)
_SWEEP = tuple(spec.name for spec in OPTIONS if spec.is_sweep)


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini twin."""
    group = parser.getgroup("infranoise", "infrastructure noise")
    for spec in OPTIONS:
        text = spec.help.replace("%", "%%")  # argparse fills in values
        kwargs: dict[str, Any] = {"dest": spec.dest, "help": text, "default": None}
        if spec.is_flag:
            kwargs["action"] = "store_true"
        elif spec.is_list:
            kwargs |= {"action": "append", "metavar": spec.metavar}
        else:
            kwargs["metavar"] = spec.metavar or "|".join(spec.choices)
        if spec.alone:
            kwargs |= {"nargs": "?", "const": spec.alone}
        group.addoption(spec.flag, **kwargs)
        kind: Any = "bool" if spec.is_flag else "linelist" if spec.is_list else "string"
        default = {"bool": False, "linelist": []}.get(kind, "")
        parser.addini(spec.dest, f"ini twin of {spec.flag}", type=kind, default=default)


def option_value(config: pytest.Config, name: str, options: Any = None) -> Any:
    """Return an option's value: command line, then ini file, then its default; None for none.

    `options` is the parsed command line where `config.option` is not filled yet.
    """
    spec = SPECS[name]
    value = getattr(config.option if options is None else options, spec.dest, None)
    if value is not None:
        return value
    value = _flag_of_ini(config, spec) if spec.is_flag else config.getini(spec.dest)
    return (spec.default or None) if value == "" else value


def check_flags(config: pytest.Config) -> None:
    """Refuse an ini file's flag that is neither true nor false.

    Raises:
        pytest.UsageError: one line that names file, option and value.
    """
    for spec in OPTIONS:
        if spec.is_flag:
            _flag_of_ini(config, spec)


def _flag_of_ini(config: pytest.Config, spec: OptionSpec) -> bool:
    try:
        return bool(config.getini(spec.dest))
    except (TypeError, ValueError, pytest.UsageError) as error:  # by version of pytest
        words = str(error)
        if spec.dest not in words:
            file = "" if config.inipath is None else f"{config.inipath}: "
            words = f"{file}{spec.dest}: {words}; write true or false"
        raise pytest.UsageError(words) from None


def is_sweep(config: pytest.Config, options: Any = None, *, without: tuple[str, ...] = ()) -> bool:
    """Whether task folders are to be collected: a sweep option or its ini twin is set.

    A preset is one, since it brings multipliers along. `without` names options to pass over.
    """
    names = [name for name in _SWEEP if name not in without]
    if any(option_value(config, name, options) not in (None, False) for name in names):
        return True
    return preset_of(option_value(config, "enforcement", options)) is not None


def preset_of(method: str) -> str | None:
    """Return the multipliers that a method of enforcement brings along, None for none."""
    if method == "hard":  # every pytest start comes along here
        return None
    from pytest_infranoise.model.enforcement import preset_multipliers

    return preset_multipliers(method)
