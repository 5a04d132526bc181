"""A trend over ordered parameter sets: one slope per task."""

from dataclasses import dataclass

import numpy as np

from pytest_infranoise.statistics.contrasts import IntArray, contrast
from pytest_infranoise.statistics.paired import Paired, compare


@dataclass(frozen=True, slots=True)
class Trend:
    """The mean over tasks of the slope on centred rank scores: change per step of the ladder.

    `slope` holds the t interval and test and the exact sign-flip test. Only tasks that ran in
    every set count.
    """

    n_sets: int
    slope: Paired


def trend(successes: IntArray, trials: IntArray, *, samples_count: bool = True) -> Trend | None:
    """Estimate the trend over three or more sets.

    Args:
        successes: Events, shape (tasks, sets), the sets in ascending order.
        trials: Trials, same shape.
        samples_count: False when samples are copies of one another.

    Returns:
        None with fewer than three sets or two complete tasks.
    """
    sets = trials.shape[1]
    complete = int(np.count_nonzero(np.all(trials > 0, axis=1)))
    if sets < 3 or complete < 2:
        return None
    weights = [2 * rank - (sets - 1) for rank in range(sets)]
    slopes = contrast(
        list(successes.T),
        list(trials.T),
        weights,
        divisor=sum(weight**2 for weight in weights) // 2,
        samples_count=samples_count,
    )
    return Trend(sets, compare(slopes))
