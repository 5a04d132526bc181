"""Every option of the plugin, each with its ini twin, and the settings that they make.

`add_options` runs at every pytest start and only registers text. `read_settings` parses and is
called when there is something to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytest_infranoise.admission import Admit
    from pytest_infranoise.design import Order
    from pytest_infranoise.model.enforcement import Enforcement
    from pytest_infranoise.model.resources import ParameterSet
    from pytest_infranoise.model.task import Leftovers


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option: `--infra-NAME` on the command line, `infra_name` in the ini file."""

    name: str
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: str = ""
    is_flag: bool = False
    is_list: bool = False
    is_sweep: bool = False

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
        "interleaved: all parameter sets of a task together, in random order; sequential: one "
        "parameter set after another",
        choices=("interleaved", "sequential"),
        default="interleaved",
    ),
    OptionSpec("seed", "seed of the order and of the agents' seeds", metavar="N"),
    OptionSpec(
        "backend",
        "where trials run (default: auto, which is docker if it answers, else local)",
        choices=("auto", "docker", "local"),
        default="auto",
    ),
    OptionSpec(
        "agent",
        "what works on the tasks: oracle, nop, or a command line run in the sandbox",
        metavar="AGENT",
        default="oracle",
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
    OptionSpec("study", "the study's own folder (default: .infranoise/<id>)", metavar="DIR"),
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
    OptionSpec("dry-run", "list the trials with their limits and run nothing", is_flag=True),
    OptionSpec("default-memory", "memory of tasks and markers that declare none", metavar="SIZE"),
    OptionSpec("default-cpus", "cores of tasks and markers that declare none", metavar="CORES"),
    OptionSpec("default-image", "image of markers that name none", metavar="IMAGE"),
    OptionSpec("default-timeout", "seconds for markers that name no timeout", metavar="SECONDS"),
)


def add_options(parser: "pytest.Parser") -> None:
    """Register every option and its ini twin."""
    group = parser.getgroup("infranoise", "infrastructure noise")
    for spec in OPTIONS:
        kwargs: dict[str, Any] = {"dest": spec.dest, "help": spec.help, "default": None}
        if spec.is_flag:
            kwargs["action"] = "store_true"
        elif spec.is_list:
            kwargs |= {"action": "append", "metavar": spec.metavar}
        else:
            kwargs["metavar"] = spec.metavar or "|".join(spec.choices)
        group.addoption(spec.flag, **kwargs)
        kind: Any = "bool" if spec.is_flag else "linelist" if spec.is_list else "string"
        default = {"bool": False, "linelist": []}.get(kind, "")
        parser.addini(spec.dest, f"ini twin of {spec.flag}", type=kind, default=default)


def option_value(config: "pytest.Config", name: str, options: Any = None) -> Any:
    """Return an option's value: command line, then ini file, then its default; None for none.

    `options` is the parsed command line where `config.option` is not filled yet.
    """
    spec = _BY_NAME[name]
    value = getattr(config.option if options is None else options, spec.dest, None)
    if value is not None:
        return value
    value = config.getini(spec.dest)
    return (spec.default or None) if value == "" else value


_BY_NAME = {spec.name: spec for spec in OPTIONS}
_SWEEP = tuple(spec.name for spec in OPTIONS if spec.is_sweep)


SWEEP_INI = tuple(spec.dest for spec in OPTIONS if spec.is_sweep and not spec.is_flag)


def is_sweep(config: "pytest.Config", options: Any = None) -> bool:
    """Whether task folders are to be collected: a sweep option or its ini twin is set.

    A preset is one, since it brings multipliers along.
    """
    if any(option_value(config, name, options) not in (None, False) for name in _SWEEP):
        return True
    return _preset_multipliers(option_value(config, "enforcement", options)) is not None


def _preset_multipliers(method: str) -> str | None:
    if method == "hard":  # every pytest start comes along here
        return None
    from pytest_infranoise.model.enforcement import preset_multipliers

    return preset_multipliers(method)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, parsed. Sizes are bytes, None is "not given".

    `control` is the id of the set that repeats the baseline. With `until_decided`, `samples` is the
    most that may run.
    """

    sets: tuple["ParameterSet", ...]
    control: str | None
    samples: int
    until_decided: bool
    order: "Order"
    seed: int | None
    backend: str
    agent: str
    agent_files: tuple[str, ...]
    agent_env: tuple[str, ...]
    leftovers: "Leftovers"
    enforcement: "Enforcement"
    study_directory: Path | None
    memory_budget_bytes: int | None
    cpu_budget_cores: float | None
    admit: "Admit"
    clamp: bool
    exit: str
    dry_run: bool
    default_memory_bytes: int | None
    default_cpu_cores: float | None
    default_image: str | None
    default_timeout_seconds: float | None


def read_settings(config: "pytest.Config") -> Settings:
    """Parse every option.

    Raises:
        UsageError: one line that names the option, the value and what is accepted.
    """
    from pytest_infranoise import units
    from pytest_infranoise.model.resources import with_control

    def given(name: str, parse: Any) -> Any:
        value = option_value(config, name)
        return None if value is None else parse(value, where=_place(config, name))

    study = option_value(config, "study")
    sets = _parameter_sets(config)
    until_decided = _until_decided(config, sets)
    repeated = with_control(sets) if option_value(config, "aa") else sets
    return Settings(
        sets=repeated,
        control=next((item.id for item in repeated if item not in sets), None),
        samples=given("max-samples" if until_decided else "samples", _positive_integer) or 1,
        until_decided=until_decided,
        order=_choice(config, "order"),
        seed=given("seed", _integer),
        backend=_choice(config, "backend"),
        agent=option_value(config, "agent"),
        agent_files=tuple(option_value(config, "agent-files")),
        agent_env=tuple(option_value(config, "agent-env")),
        leftovers=_choice(config, "leftovers"),
        enforcement=_enforcement(config),
        study_directory=(config.invocation_params.dir / study) if study else None,
        memory_budget_bytes=given("memory-budget", units.parse_size),
        cpu_budget_cores=given("cpu-budget", units.parse_cores),
        admit=_choice(config, "admit"),
        clamp=option_value(config, "clamp"),
        exit=_choice(config, "exit"),
        dry_run=option_value(config, "dry-run"),
        default_memory_bytes=given("default-memory", units.parse_size),
        default_cpu_cores=given("default-cpus", units.parse_cores),
        default_image=option_value(config, "default-image"),
        default_timeout_seconds=given("default-timeout", units.parse_seconds),
    )


def _place(config: "pytest.Config", name: str) -> str:
    """Return how the user gave an option: on the command line, or in which ini file."""
    spec = _BY_NAME[name]
    if getattr(config.option, spec.dest, None) is not None:
        return spec.flag
    return f"{config.inipath}: {spec.dest}"


def _explicit(config: "pytest.Config", name: str) -> tuple[Any, str] | None:
    """Return an option's value with its place, None where only the default speaks."""
    spec = _BY_NAME[name]
    value = getattr(config.option, spec.dest, None) or config.getini(spec.dest)
    return (value, _place(config, name)) if value else None


def _enforcement(config: "pytest.Config") -> "Enforcement":
    from pytest_infranoise.model.enforcement import choose_enforcement

    for name in ("oom-policy", "admit"):
        _choice(config, name)
    return choose_enforcement(
        option_value(config, "enforcement"),
        where=_place(config, "enforcement"),
        oom_policy=_explicit(config, "oom-policy"),
        visible=_choice(config, "visible"),
        admit=_explicit(config, "admit"),
    )


def _choice(config: "pytest.Config", name: str) -> Any:
    from pytest_infranoise.errors import UsageError

    value, spec = option_value(config, name), _BY_NAME[name]
    if value not in spec.choices:
        raise UsageError(
            f"{_place(config, name)}: {value!r} is not one of {', '.join(spec.choices)}"
        )
    return value


def _integer(text: str, *, where: str) -> int:
    from pytest_infranoise.errors import UsageError

    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{where}: {text!r} is not a whole number") from None


def _positive_integer(text: str, *, where: str) -> int:
    from pytest_infranoise.errors import UsageError

    number = _integer(text, where=where)
    if number < 1:
        raise UsageError(f"{where}: {number} is less than 1")
    return number


def _until_decided(config: "pytest.Config", sets: Sequence["ParameterSet"]) -> bool:
    """Return whether the study ends once it is decided; every mistake about that is said here."""
    from pytest_infranoise.errors import UsageError

    most = option_value(config, "max-samples")
    if not option_value(config, "until-decided"):
        if most is None:
            return False
        raise UsageError(
            f"{_place(config, 'max-samples')}: this goes with --infra-until-decided; a fixed "
            "number of samples is --infra-samples"
        )
    place = _place(config, "until-decided")
    if option_value(config, "samples") is not None:
        raise UsageError(
            f"{_place(config, 'samples')} cannot be combined with {place}: it fixes the number of "
            "samples, while --infra-max-samples bounds it; drop one of the two"
        )
    if most is None:
        raise UsageError(f"{place}: name the most samples that may run, as --infra-max-samples=12")
    if _choice(config, "order") == "sequential":
        raise UsageError(
            f"{place} cannot be combined with {_place(config, 'order')}=sequential: it looks after "
            "whole rounds of all parameter sets; use interleaved"
        )
    if len(sets) < 2:
        raise UsageError(
            f"{place}: nothing can be decided with one parameter set; name more, as in "
            "--infra-multipliers=1,3"
        )
    return True


def _parameter_sets(config: "pytest.Config") -> tuple["ParameterSet", ...]:
    from pytest_infranoise.errors import UsageError
    from pytest_infranoise.model.resources import (
        ONE,
        crossed_sets,
        joint_sets,
        parse_multipliers,
    )

    def multipliers(name: str) -> Any:
        text = option_value(config, name)
        return None if text is None else parse_multipliers(text, where=_place(config, name))

    joint = multipliers("multipliers")
    single = {name: multipliers(f"{name}-multipliers") for name in ("memory", "cpu", "timeout")}
    named = [name for name, values in single.items() if values is not None]
    if joint is not None and named:
        raise UsageError(
            f"--infra-multipliers scales memory and CPU together, so it cannot be combined with "
            f"--infra-{named[0]}-multipliers; use single-dimension options only"
        )
    if any(item.is_uncapped for item in single["timeout"] or ()):
        raise UsageError(
            f"{_place(config, 'timeout-multipliers')}: a timeout cannot be uncapped; "
            "write a number such as 4"
        )
    if named:
        return crossed_sets(single["memory"], single["cpu"], single["timeout"])
    if joint is None and (text := _preset_multipliers(option_value(config, "enforcement"))):
        joint = parse_multipliers(text, where=_place(config, "enforcement"))
    return joint_sets(joint or (ONE,))
