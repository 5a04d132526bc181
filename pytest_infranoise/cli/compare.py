"""`infranoise compare`: is the lead of one entry over another larger than the noise?"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_json, print_lines
from pytest_infranoise.cli.values import whole_number
from pytest_infranoise.errors import UsageError

if TYPE_CHECKING:
    from pytest_infranoise.report.compare import ComparisonReport


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Hold two studies, or two disclosure cards, side by side: what differs in their "
        "configurations, the difference of their scores, and whether it is larger than sampling "
        "noise and infrastructure noise. Studies are paired by task; cards and published scores "
        "are not."
    )
    parser.epilog = """\
the exit code is 1 where something makes the two incomparable

examples:
  infranoise compare study-a study-b
  infranoise compare study-a study-b --band-from big-study --format json
  infranoise compare --scores 58.2,56.9 --tasks 89 --samples 5
"""
    add = parser.add_argument
    add("entries", metavar="STUDY|CARD", type=Path, nargs="*", help="two of them")
    add("--pair", metavar="A:B", action="append", default=[], help="a set of each; repeatable")
    add("--at", metavar="SET", help="the set that decides (default: the first that both have)")
    add("--band-from", metavar="STUDY", type=Path, help="the study whose noise band counts")
    add("--scores", metavar="A,B", help="two published scores in per cent, instead of studies")
    add("--tasks", metavar="N", type=whole_number("--tasks"), help="with --scores")
    add("--samples", metavar="K", type=whole_number("--samples"), help="with --scores: runs a task")
    add("--format", choices=("text", "json"), default="text", help="default: text")


def run(arguments: Namespace) -> int:
    """Print the comparison."""
    from pytest_infranoise.report.compare_words import comparison_json, comparison_lines

    _check(arguments)
    report = _of_scores(arguments) if arguments.scores is not None else _of_entries(arguments)
    if arguments.format == "json":
        print_json(comparison_json(report))
    else:
        print_lines(comparison_lines(report))
    return Exit.FINDING if report.incomparable else Exit.FINE


def _check(arguments: Namespace) -> None:
    if arguments.scores is None:
        if len(arguments.entries) != 2:
            raise UsageError("compare: name two studies or cards, or two scores with --scores")
        if arguments.tasks is not None or arguments.samples is not None:
            raise UsageError("compare: --tasks and --samples go with --scores; studies know theirs")
    elif arguments.entries or arguments.pair or arguments.at:
        raise UsageError("compare: --scores stands for itself; leave studies, pairs and --at out")
    elif arguments.tasks is None:
        raise UsageError("compare: --scores needs --tasks, the number of tasks in the benchmark")


def _of_scores(arguments: Namespace) -> "ComparisonReport":
    from pytest_infranoise.report.compare import compare_scores, required_band

    words = arguments.scores.split(",")
    try:
        first, second = (float(word.strip().removesuffix("%")) / 100 for word in words)
    except ValueError:
        raise UsageError(
            f"--scores: {arguments.scores!r} is not two percentages, as in 58.2,56.9"
        ) from None
    band = None if arguments.band_from is None else required_band(*_view(arguments.band_from))
    return compare_scores(
        (first, second), n_tasks=arguments.tasks, samples=arguments.samples or 1, band=band
    )


def _of_entries(arguments: Namespace) -> "ComparisonReport":
    from pytest_infranoise.report.card import make_card, read_card
    from pytest_infranoise.report.compare import compare_cards, compare_views, required_band

    paths: list[Path] = arguments.entries
    names = _names(paths)
    band_from = None if arguments.band_from is None else _view(arguments.band_from)
    if not any(_is_card(path) for path in paths):
        (_, first), (_, second) = (_view(path) for path in paths)
        pairs = [_pair(text) for text in arguments.pair]
        return compare_views(
            first, second, names, pairs=pairs, at=arguments.at, band_from=band_from
        )
    if arguments.pair:
        raise UsageError("--pair: cards are compared where they have sets of one name")
    cards = [read_card(path) if _is_card(path) else make_card(_view(path)[1]) for path in paths]
    band = None if band_from is None else required_band(*band_from)
    return compare_cards(cards[0], cards[1], names, at=arguments.at, band=band)


def _is_card(path: Path) -> bool:
    return path.is_file() and path.name not in ("manifest.json", "trials.jsonl")


def _view(path: Path) -> tuple[str, Any]:
    from pytest_infranoise.report.view import view_study
    from pytest_infranoise.study.looks import note_look
    from pytest_infranoise.study.store import load_study

    study = load_study(path)
    if not study.manifest.is_finished:
        note_look(study.directory)
    return str(path), view_study(study)


def _pair(text: str) -> tuple[str, str]:
    first, colon, second = (part.strip() for part in text.partition(":"))
    if not (first and colon and second):
        raise UsageError(f"--pair: {text!r} is not A:B, a parameter set of each study")
    return first, second


def _names(paths: list[Path]) -> tuple[str, str]:
    """Call each by its folder's or file's name, or by the whole path where that is the same."""
    first, second = (path.resolve().name for path in paths)
    return (first, second) if first != second else (str(paths[0]), str(paths[1]))
