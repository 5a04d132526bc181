"""`infranoise merge`: the shards of a study put together."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_lines
from pytest_infranoise.report.model import Line


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Put the parts of a study together that --infra-shard made: in any order, and again when "
        "more of them have come. Parts of different studies are refused by name."
    )
    parser.epilog = """\
example:
  infranoise merge shard-1 shard-2 shard-3 -o whole && infranoise report whole
"""
    add = parser.add_argument
    add("studies", metavar="STUDY", type=Path, nargs="+", help="the parts' folders")
    add("-o", "--output", metavar="STUDY", type=Path, required=True, help="the new study's folder")


def run(arguments: Namespace) -> int:
    """Merge, and say what became of it."""
    from pytest_infranoise.analysis.figures import plural
    from pytest_infranoise.study.merging import merge

    merged = merge(arguments.studies, arguments.output)
    lines = [
        Line(f"{plural(len(merged.parts), 'part')}, {plural(merged.records, 'record')}"),
        Line(f"study: {merged.directory}" + ("" if merged.is_new else " (it was there already)")),
    ]
    if merged.missing:
        numbers = ", ".join(map(str, merged.missing))
        later = "when it is there, merge all parts into another folder"
        lines.insert(1, Line(f"missing: shard {numbers}; {later}", "warn"))
    print_lines(lines)
    return Exit.FINE
