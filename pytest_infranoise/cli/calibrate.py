"""`infranoise calibrate`: which guarantee and kill threshold to publish for each task."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_json, print_lines
from pytest_infranoise.cli.values import points
from pytest_infranoise.report.model import Line

if TYPE_CHECKING:
    from pytest_infranoise.report.view import StudyView
    from pytest_infranoise.study.store import Study


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Say per task which memory guarantee and which kill threshold to publish, from the peaks "
        "and kills of an agent's trials. Several studies of one agent are put together; with "
        "several agents, each value is the largest that one of them needs. Nothing is written "
        "without --write."
    )
    parser.epilog = """\
the exit code is 1 where a task's values are not known, or could not be written

examples:
  infranoise calibrate .infranoise/2026-12-01T10-22-31Z-5f3a
  infranoise calibrate agent-a agent-b --kill-rate 5% --write --tasks path/to/tasks
"""
    add = parser.add_argument
    add("studies", metavar="STUDY", type=Path, nargs="+", help="the studies' folders")
    add(
        "--kill-rate",
        metavar="RATE",
        type=points("--kill-rate"),
        help="a value is shown where at most this share of trials is killed: 10%%",
    )
    add(
        "--confidence",
        metavar="LEVEL",
        type=points("--confidence"),
        help="of that, per task and agent: 95%%",
    )
    add("--lower", action="store_true", help="propose values below the declared ones too")
    add("--write", action="store_true", help="put the values into the task files")
    add("--tasks", metavar="DIR", type=Path, help="where the tasks are, if not where they ran")
    add(
        "--accept-provisional",
        action="store_true",
        help="with --write: also values that are provisional",
    )
    add(
        "--accept-changed",
        action="store_true",
        help="with --write: also into tasks whose files changed since they ran",
    )
    add("--format", choices=("text", "json"), default="text", help="default: text")
    add("-v", "--verbose", action="count", default=0, help="per task and agent")


def run(arguments: Namespace) -> int:
    """Print the calibration, and write it where that was asked for."""
    from pytest_infranoise.analysis.calibration import CalibrationSettings
    from pytest_infranoise.report.calibration import calibrate_studies
    from pytest_infranoise.report.calibration_files import FileChoices, plan_files
    from pytest_infranoise.report.calibration_words import calibration_json, calibration_lines
    from pytest_infranoise.study.store import load_study

    given = {name: getattr(arguments, name) for name in ("kill_rate", "confidence")}
    settings = CalibrationSettings(
        lower=arguments.lower, **{name: value for name, value in given.items() if value is not None}
    )
    studies = [load_study(path) for path in dict.fromkeys(arguments.studies)]
    report = calibrate_studies(studies, settings)
    names = ("tasks", "accept_provisional", "accept_changed", "write")
    files = plan_files(report, FileChoices(**{name: getattr(arguments, name) for name in names}))
    verdicts = list(_verdicts(studies))
    if arguments.write:
        files.write()
    if arguments.format == "json":
        multipliers = [
            {"study": name, **view.analysis.to_json()["recommendation"]} for name, view in verdicts
        ]
        print_json(
            {
                **calibration_json(report),
                "recommendations": multipliers,
                "files": files.to_json(),
            }
        )
    else:
        print_lines(calibration_lines(report, verbosity=arguments.verbose))
        print_lines(line for name, view in verdicts for line in _verdict_lines(name, view))
        print_lines(files.lines())
    unknown = any(item.limit is None for item in report.calibration.tasks)
    return Exit.FINDING if unknown or (arguments.write and files.left_out) else Exit.FINE


def _verdicts(studies: Sequence["Study"]) -> Iterator[tuple[str, "StudyView"]]:
    """Yield the studies that compared multipliers, with their views."""
    from pytest_infranoise.report.view import view_study
    from pytest_infranoise.study.looks import note_look

    for study in studies:
        if not study.manifest.is_finished:
            note_look(study.directory)
        view = view_study(study)
        if view.analysis.comparisons:
            yield str(study.directory), view


def _verdict_lines(name: str, view: "StudyView") -> Iterator[Line]:
    from pytest_infranoise.analysis.words_answer import answer_lines

    for text in answer_lines(view.analysis):
        yield Line(f"whole set, {name}: {text}", "bold")
