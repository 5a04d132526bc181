"""The exact within-task permutation test: do these very tasks differ between two sets?

A task with m successes in n_a + n_b samples has, if the set makes no difference, a hypergeometric
number of them in A. The difference of its means is an integer once it is scaled by the least common
multiple of all sample counts, so the sum over tasks has a distribution on a lattice, which one
inverse Fourier transform of the product of the tasks' characteristic functions gives: no seed, no
Monte Carlo. With one task it is Fisher's test within the task, with one sample per task and set it
is McNemar's exact test. Unlike the sign-flip test over tasks it takes the tasks as given, so two
tasks that always fail in one set and never in the other are evidence, not two coin flips.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_infranoise.statistics.contrasts import IntArray

MOST_WORK = 5_000_000
"""Points of the transform times distinct kinds of tasks; beyond it the test draws at random."""
DRAWS = 99_999
_SEED = 20_260_104
_TIE_TOLERANCE = 1e-9

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Within:
    """A two-sided test of "the sets differ in no task".

    `smallest_p` is what the most extreme result could reach with the same successes per task.
    `exact` is False where the p-value was estimated from `DRAWS` random draws.
    """

    p_value: float
    smallest_p: float
    exact: bool = True


@dataclass(frozen=True, slots=True)
class _Kind:
    """Tasks of equal sample counts and successes: `tasks` of them.

    `logs` are the logarithms of the probabilities of 0, 1, ... successes in A above the least
    possible number; each of them moves the sum by `step`.
    """

    tasks: int
    step: int
    logs: FloatArray

    @property
    def reach(self) -> int:
        """How far the tasks can move the sum, from their least to their most successes in A."""
        return self.tasks * self.step * (len(self.logs) - 1)


def within_task(x_a: IntArray, n_a: IntArray, x_b: IntArray, n_b: IntArray) -> Within:
    """Test whether B differs from A; arrays of shape (tasks,), every task with trials in both."""
    events, n_tasks = x_a + x_b, n_a + n_b
    moving = (events > 0) & (events < n_tasks)
    if not bool(moving.any()):
        return Within(1.0, 1.0)
    a, na, nb, m = (array[moving] for array in (x_a, n_a, n_b, events))
    counts = {int(n) for n in np.unique(np.concatenate((n_a, n_b)))}
    scale = math.lcm(*counts)
    kinds, least = _kinds(na, nb, m, scale)
    observed = _scaled(a, na, nb, m, scale)
    if observed < 0:  # swapping the sets then changes nothing, not even random draws
        return within_task(x_b, n_b, x_a, n_a)
    divisor = math.gcd(*(kind.step for kind in kinds))
    kinds = [_Kind(kind.tasks, kind.step // divisor, kind.logs) for kind in kinds]
    reach = sum(kind.reach for kind in kinds)
    # The sum lies on least, least + divisor, ..., least + reach * divisor.
    smallest = _smallest(kinds, least, least + reach * divisor)
    if observed == 0:
        return Within(1.0, smallest)
    up = -((least - abs(observed)) // divisor)  # the first point at or above |observed|
    down = (-abs(observed) - least) // divisor  # the last point at or below -|observed|
    if (reach + 1) * sum(len(kind.logs) for kind in kinds) <= MOST_WORK:
        p_value, exact = _by_fourier(kinds, reach, up, down), True
    else:
        p_value, exact = _by_drawing(kinds, reach, up, down), False
    return Within(min(1.0, max(p_value, smallest)), smallest, exact)


def _kinds(na: IntArray, nb: IntArray, m: IntArray, scale: int) -> tuple[list[_Kind], int]:
    """Return the kinds of tasks, and the least sum that they allow."""
    table, tasks = np.unique(np.stack((na, nb, m), axis=1), axis=0, return_counts=True)
    kinds, least = [], 0
    for row, number in zip(table.tolist(), tasks.tolist(), strict=True):
        n_a, n_b, events = row
        low, high = max(0, events - n_b), min(n_a, events)
        logs = [_log_choose(n_a, x) + _log_choose(n_b, events - x) for x in range(low, high + 1)]
        total = _log_choose(n_a + n_b, events)
        step = scale // n_a + scale // n_b
        kinds.append(_Kind(number, step, np.array(logs) - total))
        least += number * (low * (scale // n_a) - (events - low) * (scale // n_b))
    return kinds, least


def _scaled(a: IntArray, na: IntArray, nb: IntArray, m: IntArray, scale: int) -> int:
    rows = zip(a.tolist(), na.tolist(), nb.tolist(), m.tolist(), strict=True)
    return sum(x * (scale // n_a) - (e - x) * (scale // n_b) for x, n_a, n_b, e in rows)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _smallest(kinds: list[_Kind], least: int, most: int) -> float:
    """Return the probability of the most extreme sums."""
    low = math.exp(math.fsum(kind.tasks * float(kind.logs[0]) for kind in kinds))
    high = math.exp(math.fsum(kind.tasks * float(kind.logs[-1]) for kind in kinds))
    if abs(least) == abs(most):
        return min(1.0, low + high)
    return low if abs(least) > abs(most) else high


def _by_fourier(kinds: list[_Kind], reach: int, up: int, down: int) -> float:
    # Only half of the points are needed: the probabilities are real.
    points = _fast_length(reach + 1)
    frequencies = np.arange(points // 2 + 1)
    product = np.ones(len(frequencies), dtype=np.complex128)
    for kind in kinds:
        # e^(-i theta step k), k = 0, 1, ...; Horner's rule needs one exponential for all.
        turn = np.exp(-2j * math.pi * (frequencies * kind.step % points) / points)
        factor = np.zeros(len(frequencies), dtype=np.complex128)
        for probability in np.exp(kind.logs)[::-1]:
            factor = factor * turn + probability
        product *= factor**kind.tasks
    pmf = np.maximum(np.fft.irfft(product, points)[: reach + 1], 0.0)
    tails = float(np.sum(pmf[max(0, up) :])) if up <= reach else 0.0
    return tails + (float(np.sum(pmf[: down + 1])) if down >= 0 else 0.0)


def _fast_length(at_least: int) -> int:
    """Return an even length at or above `at_least` whose only factors are 2, 3 and 5."""
    best = 1 << max(1, (at_least - 1).bit_length())
    for odd in (1, 3, 5, 9, 15, 25, 45, 75, 225):
        quotient = -(-at_least // odd)
        best = min(best, odd << max(1, (quotient - 1).bit_length()))
    return best


def _by_drawing(kinds: list[_Kind], reach: int, up: int, down: int) -> float:
    generator = np.random.default_rng(_SEED)
    sums: FloatArray = np.zeros(DRAWS)
    for kind in kinds:
        for successes in _drawn(kind, generator):
            sums += successes * (kind.step / reach)
    beyond = (sums >= up / reach - _TIE_TOLERANCE) | (sums <= down / reach + _TIE_TOLERANCE)
    return (1 + int(np.count_nonzero(beyond))) / (DRAWS + 1)


def _drawn(kind: _Kind, generator: np.random.Generator) -> Iterator[FloatArray]:
    """Yield what to add up: successes of each task, or of many tasks how often each occurred."""
    probabilities = np.exp(kind.logs)
    left, mass = np.full(DRAWS, kind.tasks), 1.0
    if kind.tasks == 1:
        below = np.cumsum(probabilities)[:-1]
        uniform = generator.random(DRAWS)
        yield np.asarray(sum((uniform >= edge).astype(np.float64) for edge in below))
        return
    for successes, probability in enumerate(probabilities[:-1]):
        drawn = generator.binomial(left, min(1.0, max(0.0, probability / mass)))
        yield np.asarray(successes * drawn, dtype=np.float64)
        left, mass = left - drawn, max(mass - probability, 1e-300)
    yield np.asarray((len(probabilities) - 1) * left, dtype=np.float64)
