"""What ended when: the outcomes of every set in slices of time, and how results drifted."""

import math
from collections import Counter
from datetime import UTC, datetime

from pytest_infranoise.analysis.figures import p_value, plural, points
from pytest_infranoise.analysis.words_contrasts import MEASURE_NAMES
from pytest_infranoise.model.table import OUTCOMES, UNKNOWN, OutcomeTable
from pytest_infranoise.report.page.model import DriftLine, Lane, Timeline
from pytest_infranoise.report.tables import SHOWN_OUTCOMES, counts_words
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.statistics.drift import Drift

SLICES_AT_LEAST, SLICES_AT_MOST = 24, 60


def timeline(view: StudyView) -> Timeline | None:
    """Return the study in time; None where neither times nor blocks are known."""
    rows = [row for row, attempt in enumerate(view.table.attempt) if attempt == 1]
    moments, is_time = _moments(view.table, rows)
    if moments is None:
        return None
    begin, end = min(moments), max(moments)
    number = _number_of_slices(len(rows), len(view.analysis.sets))
    lanes = _lanes(view, rows, _slices(moments, number), number)
    most = max(sum(part) for lane in lanes for part in lane.slices)
    write = _clock if is_time else _block
    drift = {} if view.analysis.settings.fit_only else view.analysis.drift
    return Timeline(
        lanes=tuple(lanes),
        most=most,
        begin=write(begin),
        end=write(end),
        note=f"{_passed(end - begin) if is_time else 'the blocks'} cut into {number} slices",
        drift=tuple(_drift_line(MEASURE_NAMES[name], item) for name, item in drift.items()),
        segments=tuple(write(start) for item in list(drift.values())[:1] for start in item.starts),
    )


def _moments(table: OutcomeTable, rows: list[int]) -> tuple[list[float] | None, bool]:
    """Return when each trial started, else its block, and whether these are times."""
    started = [table.started[row] for row in rows]
    if rows and all(map(math.isfinite, started)):
        return started, True
    blocks = [table.block[row] for row in rows]
    if rows and UNKNOWN not in blocks:
        return [float(block) for block in blocks], False
    return None, False


def _number_of_slices(trials: int, sets: int) -> int:
    """Return as many slices as a set has trials, within what can be seen."""
    return max(SLICES_AT_LEAST, min(SLICES_AT_MOST, trials // max(1, sets)))


def _slices(moments: list[float], number: int) -> list[int]:
    begin, end = min(moments), max(moments)
    width = (end - begin) / number or 1.0
    return [min(number - 1, int((moment - begin) / width)) for moment in moments]


def _lanes(view: StudyView, rows: list[int], slices: list[int], number: int) -> list[Lane]:
    table = view.table
    counts: Counter[tuple[int, int, int]] = Counter(
        (table.parameter_set[row], part, table.outcome[row])
        for row, part in zip(rows, slices, strict=True)
    )
    codes = [OUTCOMES.index(outcome) for outcome in SHOWN_OUTCOMES]
    return [
        Lane(
            item.id,
            f"{plural(item.n_trials, 'trial')}: {counts_words(item.outcomes)}",
            tuple(
                tuple(counts[table.parameter_sets.index(item.id), part, code] for code in codes)
                for part in range(number)
            ),
        )
        for item in view.analysis.sets
    ]


def _drift_line(label: str, drift: Drift) -> DriftLine:
    said = ", ".join(points(value) for value in drift.deviations)
    words = (
        f"{label} by part of the study: {said} points from each task's mean; "
        f"{p_value(drift.p_value)}, {plural(drift.n_blocks, 'block')} permuted within "
        f"{plural(drift.n_tasks, 'task')}"
    )
    return DriftLine(label, drift.deviations, words)


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _block(number: float) -> str:
    return f"block {number:g}"


def _passed(seconds: float) -> str:
    """Return a duration in the two largest units that it has."""
    for name, unit, below_name, below in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= unit:
            whole, rest = divmod(seconds, unit)
            return f"{whole:.0f} {name} {rest // below:.0f} {below_name}"
    return f"{seconds:.1f} s"
