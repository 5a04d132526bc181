"""A comparison of two entries as lines for people and as data for programs."""

from dataclasses import asdict
from typing import Any

from pytest_infranoise.analysis.entries import EntryComparison, Infrastructure, Lead
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
    lines += _lead_lines(report, (a, b))
    lines += [Line(band.words()) for band in report.bands]
    if report.band is not None and len(report.bands) > 1:
        lines.append(Line(f"held against the band of {one_line(report.band.source, 60)}"))
    elif report.band is None and not report.match:
        lines.append(Line("infrastructure band: unknown; --band-from names a study that has one"))
    for item in report.interactions:
        where = f"{_pair_words(item.from_sets)} to {_pair_words(item.to_sets)}"
        lines.append(Line(f"interaction, {where}: {interaction_line(item.result)}"))
    return lines


def _lead_lines(report: ComparisonReport, names: Pair) -> list[Line]:
    """Return the pair that decides with its sentence, then the others as description."""
    decided, described = list[Line](), list[Line]()
    for entry in report.entries:
        first, *rest = entry_lines(entry, names)
        if (entry.set_a, entry.set_b) == report.decides:
            decided += [Line(first), *(Line(text, "bold") for text in rest)]
        else:
            described.append(Line(first))
    for score in report.scores:
        first, *rest = published_lines(score.result, score.n_tasks)
        where = "" if score.set_a is None else f"{names[0]} and {names[1]} at {score.set_a}: "
        if score.set_a is None or (score.set_a, score.set_b) == report.decides:
            decided += [Line(where + first), *(Line(text, "bold") for text in rest)]
        else:
            described.append(Line(where + first))
    if described and report.decides is not None:
        heading = (
            f"{_pair_words(report.decides)} decides; the others are description "
            "(--at names another before looking)"
        )
        described.insert(0, Line(heading, "dim"))
    return decided + described


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
        "comparisons": [_entry_json(item, report) for item in report.entries]
        + [_score_json(item, report) for item in report.scores],
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


def _entry_json(item: EntryComparison, report: ComparisonReport) -> dict[str, Any]:
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
        **_lead_json(item.lead, item.infrastructure, (item.set_a, item.set_b) == report.decides),
        "sceptical": item.sceptical,
    }


def _score_json(item: Scores, report: ComparisonReport) -> dict[str, Any]:
    result = item.result
    decides = item.set_a is None or (item.set_a, item.set_b) == report.decides
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
        **_lead_json(result.lead, result.infrastructure, decides),
        "sceptical": result.sceptical,
    }


def _lead_json(lead: Lead, infrastructure: Infrastructure, decides: bool) -> dict[str, Any]:
    """Return what a lead was held against; only that of the set that decides is judged."""
    return {
        "band": infrastructure.band,
        "band_half_width": None if infrastructure.band is None else infrastructure.half_width,
        "configurations_match": infrastructure.match,
        "decides": decides,
        "lead": str(lead) if decides else None,
    }
