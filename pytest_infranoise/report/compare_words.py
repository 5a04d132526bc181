"""A comparison of two entries as lines for people and as data for programs."""

from dataclasses import asdict
from typing import Any

from pytest_infranoise.analysis.entries import EntryComparison
from pytest_infranoise.analysis.figures import plural
from pytest_infranoise.analysis.words_plan import entry_lines, interaction_line, published_lines
from pytest_infranoise.report.compare import ComparisonReport, Pair, Scores
from pytest_infranoise.report.model import Column, Line, one_line, table_lines


def comparison_lines(report: ComparisonReport) -> list[Line]:
    """Return the comparison as lines: the table of differences first."""
    a, b = (one_line(name, 60) for name in report.names)
    lines = _difference_lines(report, (a, b))
    if number := len(report.incomparable):
        lines.append(
            Line(
                f"incomparable: {plural(number, 'difference')} above cannot be told from the "
                "difference below",
                "bad",
            )
        )
    lines += [Line(note, "warn") for note in report.notes]
    for entry in report.entries:
        first, *rest = entry_lines(entry, (a, b))
        lines += [Line(first), *(Line(text, "bold") for text in rest)]
    for score in report.scores:
        first, *rest = published_lines(score.result, score.n_tasks)
        where = "" if score.set_a is None else f"{a} and {b} at {score.set_a}: "
        lines += [Line(where + first), *(Line(text, "bold") for text in rest)]
    lines += [Line(band.words()) for band in report.bands]
    if report.band is None:
        lines.append(Line("infrastructure band: unknown; --band-from names a study that has one"))
    elif len(report.bands) > 1:
        lines.append(Line(f"held against the band of {one_line(report.band.source, 60)}"))
    for item in report.interactions:
        where = f"{_pair_words(item.from_sets)} to {_pair_words(item.to_sets)}"
        lines.append(Line(f"interaction, {where}: {interaction_line(item.result)}"))
    return lines


def _pair_words(pair: Pair) -> str:
    return pair[0] if pair[0] == pair[1] else f"{pair[0]}/{pair[1]}"


def _difference_lines(report: ComparisonReport, names: Pair) -> list[Line]:
    if not report.differences:
        return [Line("configurations: no difference", "good")]
    columns = [Column("configuration"), Column("field"), *(Column(name) for name in names)]
    rows, before = [], ""
    for item in report.differences:
        weight = str(item.weight)
        cells = (item.field, item.first, item.second)
        shown = [one_line(cell, 60) for cell in cells]
        rows.append(["" if weight == before else weight, *shown])
        before = weight
    return table_lines(columns, rows)


def comparison_json(report: ComparisonReport) -> dict[str, Any]:
    """Return the comparison as builtins; proportions, null where undefined or unknown."""
    return {
        "a": report.names[0],
        "b": report.names[1],
        "differences": [
            {"class": str(item.weight), "field": item.field, "a": item.first, "b": item.second}
            for item in report.differences
        ],
        "comparable": not report.incomparable,
        "comparisons": [_entry_json(item) for item in report.entries]
        + [_score_json(item) for item in report.scores],
        "bands": [asdict(band) for band in report.bands],
        "band": None if report.band is None else asdict(report.band),
        "interactions": [
            {
                "from": list(item.from_sets),
                "to": list(item.to_sets),
                "tasks": item.result.n_tasks,
                "difference": item.result.difference,
                "ci95": None if item.result.ci95 is None else list(item.result.ci95),
                "p_value": item.result.p_value,
            }
            for item in report.interactions
        ],
        "notes": list(report.notes),
    }


def _entry_json(item: EntryComparison) -> dict[str, Any]:
    contrast = item.contrast
    return {
        "paired": True,
        "set_a": item.set_a,
        "set_b": item.set_b,
        "tasks": contrast.n_tasks,
        "score_a": contrast.baseline_value,
        "score_b": contrast.value,
        "difference": contrast.difference,
        "ci95": None if contrast.ci95 is None else list(contrast.ci95),
        "p_value": contrast.p_value,
        "half_width": item.half_width,
        "band": item.band,
        "lead": str(item.lead),
        "sceptical": item.sceptical,
    }


def _score_json(item: Scores) -> dict[str, Any]:
    result = item.result
    return {
        "paired": False,
        "set_a": item.set_a,
        "set_b": item.set_b,
        "tasks": item.n_tasks,
        "samples": item.samples,
        "difference": result.difference,
        "ci95": list(result.ci95),
        "ci95_independent": list(result.ci95_independent),
        "half_width": result.half_width,
        "band": result.band,
        "lead": str(result.lead),
        "sceptical": result.sceptical,
    }
