"""Within-task contrasts as exact integers.

A task's mean over its samples is a fraction, so a weighted sum of a task's means over parameter
sets is one too. Scaled by the least common multiple of all sample counts it becomes an integer;
ties between tasks then are ties, and sums do not depend on the order of the tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
_INT64_SAFE = 2**62
_DENSE = 4096


@dataclass(frozen=True, slots=True)
class Contrast:
    """One number per task, kept as how often each distinct integer occurs.

    A task's contrast is `value / scale`. `spread_constant` is h^2 of the floored standard error:
    half the mean over tasks of the sum of weight^2 / samples (docs/statistics.md).
    """

    values: tuple[int, ...]
    counts: tuple[int, ...]
    scale: int
    spread_constant: float

    @property
    def n_tasks(self) -> int:
        """The number of tasks with a contrast."""
        return sum(self.counts)

    @property
    def n_differing(self) -> int:
        """The number of tasks whose contrast is not zero."""
        return sum(
            count for value, count in zip(self.values, self.counts, strict=True) if value != 0
        )

    @property
    def total(self) -> int:
        """The sum over tasks, in units of 1 / scale."""
        return sum(value * count for value, count in zip(self.values, self.counts, strict=True))

    @property
    def total_of_squares(self) -> int:
        """The sum of squares over tasks, in units of 1 / scale^2."""
        return sum(value**2 * count for value, count in zip(self.values, self.counts, strict=True))

    @property
    def mean(self) -> float:
        """The mean over tasks; there must be a task."""
        return self.total / (self.scale * self.n_tasks)

    def __neg__(self) -> Self:
        return replace(
            self, values=tuple(-value for value in self.values[::-1]), counts=self.counts[::-1]
        )


def contrast(
    successes: Sequence[IntArray],
    trials: Sequence[IntArray],
    weights: Sequence[int],
    *,
    divisor: int = 1,
    samples_count: bool = True,
) -> Contrast:
    """Return sum(weight * successes / trials) / divisor for every task.

    Args:
        successes: One array per parameter set, shape (tasks,): trials with the event.
        trials: The same shape: trials in all. A task without a trial in any of the sets is left
            out.
        weights: One integer per parameter set.
        divisor: What the weighted sum is divided by.
        samples_count: False when samples are copies of one another, so that each task counts as
            measured once.
    """
    complete = np.all([n > 0 for n in trials], axis=0)
    x = [array[complete] for array in successes]
    n = [array[complete] for array in trials]
    samples = {int(k) for array in n for k in count_distinct(array)[0]}
    scale = math.lcm(*samples)
    values, counts = _distinct(_scaled_sum(x, n, weights, scale))
    return Contrast(
        values=values,
        counts=counts,
        scale=scale * divisor,
        spread_constant=_spread_constant(n, weights, divisor, samples_count),
    )


def paired_contrast(
    x_a: IntArray,
    n_a: IntArray,
    x_b: IntArray,
    n_b: IntArray,
    *,
    samples_count: bool = True,
) -> Contrast:
    """Return the differences of task means, B minus A."""
    return contrast((x_a, x_b), (n_a, n_b), (-1, 1), samples_count=samples_count)


def count_distinct(values: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Return the distinct integers in ascending order, and how often each occurs.

    Sums over them do not depend on the order of the tasks, and they are few.
    """
    if len(values) == 0 or values.dtype == object:
        return np.unique(values, return_counts=True)
    low, span = int(values.min()), int(values.max()) - int(values.min())
    if span > _DENSE + 4 * len(values):
        return np.unique(values, return_counts=True)
    counts = np.bincount(values - low)
    present = np.flatnonzero(counts)
    return present + low, counts[present]


def distinct_cells(events: IntArray, trials: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the distinct pairs of events and trials, and how many tasks have each."""
    radix = int(trials.max()) + 1 if len(trials) else 1
    pairs, counts = count_distinct(events.astype(np.int64) * radix + trials)
    return pairs // radix, pairs % radix, counts


def _scaled_sum(
    x: Sequence[IntArray], n: Sequence[IntArray], weights: Sequence[int], scale: int
) -> NDArray[Any]:
    largest = scale * sum(abs(weight) for weight in weights)
    kind: type = np.int64 if largest < _INT64_SAFE else object
    total: NDArray[Any] = np.zeros(len(x[0]), dtype=kind)
    for events, trials, weight in zip(x, n, weights, strict=True):
        total = total + weight * events.astype(kind) * (scale // trials.astype(kind))
    return total


def _distinct(values: NDArray[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    distinct, counts = count_distinct(values)
    return tuple(int(value) for value in distinct), tuple(int(count) for count in counts)


def _spread_constant(
    n: Sequence[IntArray], weights: Sequence[int], divisor: int, samples_count: bool
) -> float:
    tasks = len(n[0])
    if tasks == 0:
        return 0.0
    total = 0.0
    for trials, weight in zip(n, weights, strict=True):
        distinct, counts = count_distinct(trials)
        shares = counts / distinct if samples_count else counts.astype(np.float64)
        total += weight**2 * math.fsum(shares)
    return total / (2 * tasks * divisor**2)
