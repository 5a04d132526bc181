"""`infranoise report`: what a study shows."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_json, print_lines, terminal_width
from pytest_infranoise.cli.values import points
from pytest_infranoise.errors import UsageError
from pytest_infranoise.report.model import Line

if TYPE_CHECKING:
    from pytest_infranoise.analysis.gates import GateResult
    from pytest_infranoise.report.view import StudyView

_CHOICES = (
    "alpha",
    "margin",
    "dimension",
    "timeouts_are_infra",
    "accept_engine",
    "floor",
    "ceiling",
)
"""Options that are fields of `AnalysisSettings`; what is not given is left to its default."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Print what pytest's summary of a study prints. A study that is still running, or whose "
        "machine died, is read as far as it goes; such a look is counted beside the study."
    )
    parser.epilog = """\
points are written 3pp, 3% or 0.03; gates are described in docs/gates.md

examples:
  infranoise report .infranoise/2026-12-01T10-22-31Z-5f3a --margin 2pp
  infranoise report .infranoise/2026-12-01T10-22-31Z-5f3a -o report.html -o comment.md
  infranoise report study --gate 'infra_error_rate<=2%@3x' --gate no-oom@3x
"""
    add = parser.add_argument
    add("study", metavar="STUDY", type=Path, help="the study's folder")
    add(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="write the report to this file instead, as .html, .md, .json or .csv; repeatable",
    )
    add("--format", choices=("text", "json"), help="what is printed (default: text)")
    add("-v", "--verbose", action="count", default=0, help="per task, sensitivity; -vv: methods")
    add("-q", "--quiet", action="count", default=0, help="the verdict alone")
    add("--baseline", metavar="SET", help="the set that others are compared with")
    add("--margin", metavar="POINTS", type=points("--margin"), help="what does not matter: 3pp")
    add("--alpha", metavar="RATE", type=points("--alpha"), help="error rate of a claim: 0.05")
    add(
        "--dimension",
        choices=("memory", "cpu", "timeout"),
        help="the dimension that trend and recommendation follow in a cross product",
    )
    add(
        "--timeouts-are-infra",
        action="store_true",
        default=None,
        help="count timeouts as infra errors, not as failures of the agent",
    )
    add(
        "--accept-engine",
        action="store_true",
        default=None,
        help="accept a recommendation measured by the local backend or the watchdog",
    )
    add(
        "--gate",
        metavar="GATE",
        action="append",
        default=[],
        help="what must hold, as 'infra_error_rate<=2%%@3x'; the exit code is 1 where one does not "
        "pass; repeatable",
    )
    add("--floor", metavar="SET", help="lower end of the declared noise band")
    add(
        "--ceiling",
        metavar="SET",
        help="upper end of the declared noise band, and the set whose bounds are tested first "
        "(default: what --infra-ceiling declared)",
    )


def run(arguments: Namespace) -> int:
    """Print the report, or write it to files."""
    from pytest_infranoise.report.files import Report, check_files, write_files
    from pytest_infranoise.report.gates import all_passed, gate_lines, gates_json
    from pytest_infranoise.report.terminal import summary_lines
    from pytest_infranoise.report.view import view_study
    from pytest_infranoise.study.looks import note_look
    from pytest_infranoise.study.store import load_study

    files: list[Path] = arguments.output
    if files and arguments.format is not None:
        raise UsageError("--format: it is for what is printed; a file's kind is its name's ending")
    check_files(files, where="-o")
    given = {name: getattr(arguments, name) for name in _CHOICES}
    choices = {name: value for name, value in given.items() if value is not None}
    study = load_study(arguments.study)
    if not study.manifest.is_finished:
        note_look(study.directory)
    view = view_study(study, baseline=arguments.baseline, **choices)
    gates = _judge(view, arguments.gate)
    if files:
        for written in write_files(Report(view, study.records, gates), files):
            print_lines([Line(f"report: {written}")])
    elif arguments.format == "json":
        judged = {"gates": gates_json(gates)} if gates else {}
        print_json({**view.analysis.to_json(), **judged})
    else:
        verbosity = arguments.verbose - arguments.quiet
        print_lines(summary_lines(view, verbosity=verbosity, width=terminal_width()))
    if arguments.format != "json":
        print_lines(gate_lines(gates))
    return Exit.FINE if all_passed(gates) else Exit.FINDING


def _judge(view: "StudyView", texts: Sequence[str]) -> "tuple[GateResult, ...]":
    if not texts:
        return ()
    from pytest_infranoise.analysis.gate_grammar import parse_gate
    from pytest_infranoise.analysis.gates import known_sets_of
    from pytest_infranoise.report.gates import judge_view

    known = known_sets_of(view.analysis)
    return judge_view(view, [parse_gate(text, where="--gate", sets=known) for text in texts])
