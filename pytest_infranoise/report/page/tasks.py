"""The map of tasks and parameter sets: outcome counts, and peaks beside the kill threshold."""

from collections import Counter
from collections.abc import Mapping

from pytest_infranoise.analysis.figures import plural
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.resources import ParameterSet
from pytest_infranoise.report.page.gather import Key, MemoryUse
from pytest_infranoise.report.page.model import UNKNOWN, Cell, Peak, TaskMap, TaskRow
from pytest_infranoise.report.tables import SHOWN_OUTCOMES
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.units import format_size

SHOWN_AT_ONCE = 40
CELLS_AT_MOST = 6_000

Counts = Mapping[str, Counter[Outcome]]
"""Outcome counts by parameter set."""


def task_map(view: StudyView, memory: Mapping[Key, MemoryUse], sets: list[ParameterSet]) -> TaskMap:
    """Return every task in every set; in a large study those that differ most come first."""
    ids = tuple(item.id for item in view.analysis.sets)
    uncapped = {item.id for item in sets if item.memory.is_uncapped}
    knows_peaks = any(use.peak_bytes is not None for use in memory.values())
    by_task = view.outcomes_by_task

    def row(task: str) -> TaskRow:
        cells = []
        for name in ids:
            counts = by_task[task].get(name)
            use = memory.get((task, name)) if knows_peaks else None
            peak = None if use is None else _peak(use, name in uncapped)
            cells.append(Cell(_counts(counts), peak))
        return TaskRow(task, tuple(cells))

    first, others, left_out = _chosen(by_task, ids)
    return TaskMap(
        ids, tuple(map(row, first)), tuple(map(row, others)), left_out, _note(first, others)
    )


def _chosen(
    by_task: Mapping[str, Counts], ids: tuple[str, ...]
) -> tuple[list[str], list[str], int]:
    names = list(by_task)
    if len(names) <= SHOWN_AT_ONCE:
        return names, [], 0
    ranked = sorted(names, key=lambda name: -_restlessness(by_task[name]))
    first = ranked[:SHOWN_AT_ONCE]
    rest = [name for name in names if name not in set(first)]
    room = max(0, CELLS_AT_MOST // max(1, len(ids)) - len(first))
    return first, rest[:room], len(rest) - len(rest[:room])


def _restlessness(by_set: Counts) -> float:
    """Return how much of a task's outcome hangs on the set, or on the infrastructure."""
    ran = [(counts, counts.total()) for counts in by_set.values() if counts]
    if not ran:
        return 0.0
    passed = [counts[Outcome.PASSED] / total for counts, total in ran]
    infra = [(counts[Outcome.OOM] + counts[Outcome.INFRA_ERROR]) / total for counts, total in ran]
    return max(passed) - min(passed) + max(infra)


def _note(first: list[str], others: list[str]) -> str:
    if not others:
        return "tasks in the study's order"
    return (
        f"the {len(first)} tasks whose outcome differs most between the sets, or that the "
        "infrastructure ended most often"
    )


def _counts(counts: Counter[Outcome] | None) -> tuple[tuple[Outcome, int], ...]:
    if counts is None:
        return ()
    return tuple((item, counts[item]) for item in SHOWN_OUTCOMES if counts[item])


def _peak(use: MemoryUse, is_uncapped: bool) -> Peak:
    killed = bool(use.kills)
    kills = f", {plural(use.kills, 'kill')}" if use.kills else ""
    if use.peak_bytes is None:
        return Peak(f"peak {UNKNOWN}{kills}", None, killed)
    peak = f"peak {format_size(use.peak_bytes)}"
    if use.limit_bytes is not None:
        share = min(1.0, use.peak_bytes / use.limit_bytes) if use.limit_bytes else None
        return Peak(f"{peak} of {format_size(use.limit_bytes)}{kills}", share, killed)
    limit = "uncapped" if is_uncapped else f"limit {UNKNOWN}"
    return Peak(f"{peak}, {limit}{kills}", None, killed)
