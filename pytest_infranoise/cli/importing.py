"""`infranoise import`: somebody else's results as a study."""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_lines
from pytest_infranoise.cli.values import positive
from pytest_infranoise.errors import UsageError
from pytest_infranoise.report.model import Line

_COUNTS = """\
FILE.csv has the columns task,parameter_set,passed,failed,timeout,oom,infra_error and a row per task
and parameter set. Parameter sets keep the order of their first appearance.

example:
  infranoise import counts table.csv -o study && infranoise report study
"""
_HARBOR = """\
JOBDIR is a job's folder: config.json, and a folder per trial with its result.json. Trials of a task
are its samples, in the order of their start.

example:
  infranoise import harbor jobs/run-1x --set 1x -o study
  infranoise import harbor jobs/run-3x --set 3x --into study && infranoise report study
"""
_SWEBENCH = """\
REPORT.json is what swebench.harness writes at the end. Each report is one sample of
every instance in it.

example:
  infranoise import swebench run-*.1x.json --set 1x --agent my-agent -o study
"""
_TERMINAL_BENCH = """\
DIR is a run's folder, with results.json. Trials of a task are its samples, in the order of their
start.

example:
  infranoise import terminal-bench runs/2026-11-30 --set 1x -o study
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Make a study of results from elsewhere, so that they get the same analysis. What their "
        "files do not hold is unknown, and the report says which conclusions cannot be drawn."
    )
    parser.epilog = "each has --help with an example: infranoise import harbor --help"
    kinds = parser.add_subparsers(dest="kind", metavar="WHAT", required=True, title="results")

    def add_kind(name: str, words: str, epilog: str) -> Any:
        return kinds.add_parser(
            name,
            help=words,
            description=f"Make a study of {words}.",
            epilog=epilog,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    counts = add_kind("counts", "counts per task, as papers print them", _COUNTS)
    counts.add_argument("file", metavar="FILE.csv", type=Path)
    _add_output(counts.add_argument, required=True)
    harbor = add_kind("harbor", "the trials of Harbor's jobs", _HARBOR)
    harbor.add_argument("paths", metavar="JOBDIR", type=Path, nargs="+")
    _add_runs(harbor)
    harbor.add_argument("--eval", metavar="KEY", help="take one of the job's evaluations alone")
    harbor.add_argument(
        "--pass-threshold",
        metavar="REWARD",
        type=positive("--pass-threshold"),
        default=1.0,
        help="the least reward that passes (default: 1)",
    )
    swebench = add_kind("swebench", "SWE-bench's reports", _SWEBENCH)
    swebench.add_argument("paths", metavar="REPORT.json", type=Path, nargs="+")
    terminal_bench = add_kind("terminal-bench", "Terminal-Bench 1's runs", _TERMINAL_BENCH)
    terminal_bench.add_argument("paths", metavar="DIR", type=Path, nargs="+")
    for own in (swebench, terminal_bench):
        _add_runs(own)
        own.add_argument("--agent", metavar="NAME", help="who ran, where the files do not say it")


def _add_runs(parser: ArgumentParser) -> None:
    """Add the options of results that hold one parameter set."""
    add = parser.add_argument
    add("--set", metavar="SET", required=True, help="the parameter set they ran with: 1x, 3x, ...")
    group = parser.add_mutually_exclusive_group(required=True)
    _add_output(group.add_argument, baseline=add)
    group.add_argument(
        "--into", metavar="STUDY", type=Path, help="add to the study of an earlier import"
    )


def _add_output(add: Any, *, baseline: Any = None, required: bool = False) -> None:
    own = {"required": True} if required else {}
    add("-o", "--output", metavar="STUDY", type=Path, help="the new study's folder", **own)
    (baseline or add)(
        "--baseline", metavar="SET", help="default: the parameter set that came first"
    )


def run(arguments: Namespace) -> int:
    """Read the files, write the study and say what it holds."""
    if arguments.kind == "counts":
        print_lines(_counts(arguments))
    else:
        print_lines(_runs(arguments))
    return Exit.FINE


def _counts(arguments: Namespace) -> Iterator[Line]:
    from pytest_infranoise.analysis.figures import plural
    from pytest_infranoise.study.imported import import_counts

    table = import_counts(
        arguments.file,
        arguments.output,
        baseline=arguments.baseline,
        command_line=["infranoise", *sys.argv[1:]],
    )
    sets = table.parameter_sets
    yield Line(
        f"{plural(len(table.tasks), 'task')} x {plural(len(sets), 'parameter set')} "
        f"({', '.join(sets)}), {plural(table.n_trials, 'trial')}, "
        f"against {arguments.baseline or sets[0]}"
    )
    yield Line(f"study: {arguments.output}")


def _runs(arguments: Namespace) -> Iterator[Line]:
    from pytest_infranoise.study.imported_study import import_runs

    runs = [_read(path, arguments) for path in arguments.paths]
    study = arguments.into or arguments.output
    manifest = import_runs(
        runs,
        study,
        parameter_set=_set_id(arguments.set),
        into=arguments.into is not None,
        baseline=arguments.baseline,
        command_line=["infranoise", *sys.argv[1:]],
    )
    for run in runs:
        yield from _run_lines(run, arguments.set)
    yield _study_line(manifest)
    yield Line(f"study: {study}")


def _set_id(text: str) -> str:
    name = text.strip()
    if not name or not name.isprintable():
        raise UsageError(f"--set: {text!r} names no parameter set; write for example 1x")
    return name


def _read(path: Path, arguments: Namespace) -> Any:
    if arguments.kind == "harbor":
        from pytest_infranoise.study.imported_harbor import read_harbor

        return read_harbor(path, evaluation=arguments.eval, pass_threshold=arguments.pass_threshold)
    if arguments.kind == "swebench":
        from pytest_infranoise.study.imported_swebench import read_swebench

        return read_swebench(path, agent=arguments.agent)
    from pytest_infranoise.study.imported_terminal_bench import read_terminal_bench

    return read_terminal_bench(path, agent=arguments.agent)


def _run_lines(run: Any, parameter_set: str) -> Iterator[Line]:
    """Say what one run holds, so that it can be held against the tool's own figures."""
    from collections import Counter

    from pytest_infranoise.analysis.figures import plural
    from pytest_infranoise.model.outcome import Cause
    from pytest_infranoise.report.model import one_line
    from pytest_infranoise.report.tables import counts_words

    tasks = len({trial.task for trial in run.trials})
    measured = [trial for trial in run.trials if trial.cause is not Cause.MODEL_API]
    outcomes = counts_words(Counter(trial.outcome for trial in measured))
    yield Line(
        f"{one_line(run.name, 60)} at {parameter_set}: {plural(len(run.trials), 'trial')} of "
        f"{plural(tasks, 'task')}: {outcomes}"
    )
    if refused := len(run.trials) - len(measured):
        yield Line(
            f"refused by the model's provider, in no rate: {plural(refused, 'trial')}", "warn"
        )
    for reason, number in sorted(run.left_out.items()):
        yield Line(f"left out: {number} {one_line(reason, 60)}", "warn")
    for note in run.notes:
        yield Line(f"note: {one_line(note)}", "warn")


def _study_line(manifest: Mapping[str, Any]) -> Line:
    from pytest_infranoise.analysis.figures import plural

    sets = [item["id"] for item in manifest["parameter_sets"]]
    return Line(
        f"{plural(len(manifest['tasks']), 'task')} x {plural(len(sets), 'parameter set')} "
        f"({', '.join(sets)}), {plural(manifest['planned_trials'], 'trial')}, "
        f"against {manifest['baseline']}"
    )
