"""Which tasks moved between the baseline and a set, and how."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_infranoise.analysis.contrasts import Events
from pytest_infranoise.analysis.results import Measure, Movement, Shift, TaskShift
from pytest_infranoise.statistics.multiplicity import benjamini_hochberg
from pytest_infranoise.statistics.tables import fisher_per_task

_BY_KILLS = (Shift.DOOMED, Shift.STILL_KILLED)
"""Success tells nothing of these."""


def movements(
    measures: dict[Measure, Events],
    tasks: Sequence[str],
    baseline: int,
    others: Sequence[int],
    alpha: float,
) -> list[Movement]:
    """Sort the common tasks of each set by how they moved.

    The p-values of single tasks are corrected over the tasks of one contrast.

    Args:
        measures: Events per measure, arrays of shape (tasks, sets).
        tasks: The names of the tasks.
        baseline: The baseline's column.
        others: The columns to compare with it.
        alpha: The false discovery rate of the list of tasks that moved by themselves.
    """
    return [_movement(measures, tasks, baseline, other, alpha) for other in others]


def _movement(
    measures: dict[Measure, Events], tasks: Sequence[str], baseline: int, other: int, alpha: float
) -> Movement:
    success = measures[Measure.SUCCESS]
    which = np.flatnonzero((success.trials[:, baseline] > 0) & (success.trials[:, other] > 0))
    p = _p_values(success, baseline, other, which)
    q = benjamini_hochberg(p)
    q_kills = benjamini_hochberg(_p_values(measures[Measure.OOM], baseline, other, which))
    shifts = _shifts(measures, baseline, other, which)

    def names(chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(sorted(tasks[index] for index in which[chosen]))

    return Movement(
        tasks={kind: names(chosen) for kind, chosen in shifts.items()},
        named={
            kind: names(chosen & ((q_kills if kind in _BY_KILLS else q) < alpha))
            for kind, chosen in shifts.items()
        },
        significant=_significant(success, tasks, baseline, other, which, p, q, alpha),
    )


def _p_values(
    events: Events, baseline: int, other: int, which: NDArray[np.intp]
) -> NDArray[np.float64]:
    cells = (*events.column(baseline), *events.column(other))
    return fisher_per_task(*(array[which] for array in cells))


def _gain(events: Events, baseline: int, other: int, which: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the sign-true change of each task's rate, as an integer (cross-multiplied)."""
    (x_a, n_a), (x_b, n_b) = events.column(baseline), events.column(other)
    return np.asarray(x_b[which] * n_a[which] - x_a[which] * n_b[which])


def _shifts(
    measures: dict[Measure, Events], baseline: int, other: int, which: NDArray[np.intp]
) -> dict[Shift, NDArray[np.bool_]]:
    success = _gain(measures[Measure.SUCCESS], baseline, other, which)
    oom = _gain(measures[Measure.OOM], baseline, other, which)
    infra = _gain(measures[Measure.INFRA_ERROR], baseline, other, which)
    killed = measures[Measure.OOM].events[which, baseline] > 0
    up, same = success > 0, success == 0
    rescued = up & (oom < 0)
    recovered = up & ~rescued & (infra < 0)
    return {
        Shift.RESCUED: rescued,
        Shift.DOOMED: same & (oom < 0),
        Shift.EASED: up & ~rescued & ~recovered,
        Shift.RECOVERED: recovered,
        Shift.WORSENED: success < 0,
        Shift.STILL_KILLED: same & killed & (oom >= 0),
    }


def _significant(
    success: Events,
    tasks: Sequence[str],
    baseline: int,
    other: int,
    which: NDArray[np.intp],
    p: NDArray[np.float64],
    q: NDArray[np.float64],
    alpha: float,
) -> tuple[TaskShift, ...]:
    (x_a, n_a), (x_b, n_b) = success.column(baseline), success.column(other)
    moved = []
    for position in np.flatnonzero(q < alpha):
        task = which[position]
        difference = float(x_b[task] / n_b[task] - x_a[task] / n_a[task])
        moved.append(TaskShift(tasks[task], difference, float(p[position]), float(q[position])))
    return tuple(sorted(moved, key=lambda item: (item.p_value, item.task)))
