"""How sure a difference is for these very tasks: only the samples are random.

The variance of each cell (task and set) comes from its own samples. The floor pretends two more
tasks that moved apart as far as coin flips would; without it five tasks that all pass would
"prove" equality with an interval of width zero.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pytest_infranoise.statistics.contrasts import IntArray, distinct_cells
from pytest_infranoise.statistics.intervals import Interval


@dataclass(frozen=True, slots=True)
class Precision:
    """A standard error with what it is made of; `value` is the larger of the two.

    `df` are the degrees of freedom of its t quantiles.
    """

    plain: float
    floor: float
    df: int

    @property
    def value(self) -> float:
        """The standard error that intervals use."""
        return max(self.plain, self.floor)


def precision(x_a: IntArray, n_a: IntArray, x_b: IntArray, n_b: IntArray) -> Precision | None:
    """Return the precision of the mean difference; arrays of shape (tasks,), trials in each cell.

    Returns:
        None if no cell has two samples: the samples then say nothing of their own spread.
    """
    df = int((n_a - 1).sum() + (n_b - 1).sum())
    if df == 0:
        return None
    repeated = (n_a > 1) & (n_b > 1)
    variance = sum(_cell_variances(x[repeated], n[repeated]) for x, n in ((x_a, n_a), (x_b, n_b)))
    single = ~repeated
    if bool(single.any()):
        difference = x_b[single] / n_b[single] - x_a[single] / n_a[single]
        variance += math.fsum(difference**2)
    return floored(variance, n_a, n_b, df)


def floored(variance: float, n_a: IntArray, n_b: IntArray, df: int) -> Precision:
    """Return the precision of a mean over tasks whose sum has this variance."""
    tasks = len(n_a)
    h2 = (_inverse_sum(n_a) + _inverse_sum(n_b)) / (2 * tasks)
    return Precision(
        plain=math.sqrt(variance) / tasks, floor=math.sqrt(variance + 2 * h2) / (tasks + 2), df=df
    )


def interval(mean: float, se: float, df: int, level: float) -> Interval:
    """Return the two-sided t interval."""
    half = float(stdtrit(df, (1 + level) / 2)) * se
    return (mean - half, mean + half)


def _cell_variances(x: IntArray, n: IntArray) -> float:
    """Return the sum over cells of the unbiased variance of the cell's mean."""
    events, trials, count = distinct_cells(x, n)
    p = events / trials
    return math.fsum(p * (1 - p) / (trials - 1) * count)


def _inverse_sum(n: IntArray) -> float:
    values, counts = np.unique(n, return_counts=True)
    return math.fsum(counts / values)
