"""`infranoise import`: somebody else's results as a study."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_lines
from pytest_infranoise.report.model import Line


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Make a study of counts, so that a paper's or a leaderboard's table gets the same analysis."
    )
    parser.epilog = """\
FILE.csv has the columns task,parameter_set,passed,failed,timeout,oom,infra_error and a row per task
and parameter set. Parameter sets keep the order of their first appearance.

example:
  infranoise import counts table.csv -o study && infranoise report study
"""
    add = parser.add_argument
    add("kind", choices=("counts",), help="what the file holds")
    add("file", metavar="FILE.csv", type=Path)
    add("-o", "--output", metavar="STUDY", type=Path, required=True, help="the new study's folder")
    add("--baseline", metavar="SET", help="default: the parameter set that appears first")


def run(arguments: Namespace) -> int:
    """Read the file, write the study and say what it holds."""
    from pytest_infranoise.analysis.figures import plural
    from pytest_infranoise.study.imported import import_counts

    table = import_counts(
        arguments.file,
        arguments.output,
        baseline=arguments.baseline,
        command_line=["infranoise", *sys.argv[1:]],
    )
    sets = table.parameter_sets
    print_lines(
        [
            Line(
                f"{plural(len(table.tasks), 'task')} x {plural(len(sets), 'parameter set')} "
                f"({', '.join(sets)}), {plural(table.n_trials, 'trial')}, "
                f"against {arguments.baseline or sets[0]}"
            ),
            Line(f"study: {arguments.output}"),
        ]
    )
    return Exit.FINE
