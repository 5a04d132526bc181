"""`infranoise export`: a study's trials and its disclosure card as files."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_lines
from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.report.model import Line


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Write a study's trials as a table, one row per trial and attempt, or the disclosure card "
        "that a leaderboard entry can publish. Existing files are replaced."
    )
    parser.epilog = """\
the columns are described in docs/cli.md

examples:
  infranoise export study -o trials.csv
  infranoise export study --card card.json
"""
    add = parser.add_argument
    add("study", metavar="STUDY", type=Path, help="the study's folder")
    add("-o", "--output", metavar="FILE", type=Path, help="trials, as .csv or .json")
    add("--card", metavar="FILE.json", type=Path, help="the disclosure card")


def run(arguments: Namespace) -> int:
    """Write what was asked for, and say so."""
    from pytest_infranoise.analysis.figures import plural
    from pytest_infranoise.report.card import card_lines, make_card
    from pytest_infranoise.report.export import export
    from pytest_infranoise.report.view import view_study
    from pytest_infranoise.study.files import write_json
    from pytest_infranoise.study.store import load_study
    from pytest_infranoise.study.writer import refuse_own_file

    if arguments.output is None and arguments.card is None:
        raise UsageError("export: nothing to write; name -o FILE.csv or --card FILE.json")
    for option, file in (("-o", arguments.output), ("--card", arguments.card)):
        if file is not None:
            refuse_own_file(file, where=option)
    study, lines = load_study(arguments.study), []
    if arguments.output is not None:
        number = export(study, arguments.output)
        lines.append(Line(f"{plural(number, 'row')}: {arguments.output}"))
    if arguments.card is not None:
        view = view_study(study)
        try:
            write_json(arguments.card, make_card(view))
        except OSError as error:
            raise InfranoiseError(
                f"{arguments.card}: cannot be written: {error.strerror}"
            ) from error
        lines += [*card_lines(view), Line(f"card: {arguments.card}")]
    print_lines(lines)
    return Exit.FINE
