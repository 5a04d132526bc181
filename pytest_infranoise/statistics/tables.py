"""Tests on counts: within one task, stratified over these tasks, and for an unpaired trend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from pytest_infranoise.statistics.contrasts import IntArray


@lru_cache(maxsize=4096)
def fisher_exact(x_a: int, n_a: int, x_b: int, n_b: int) -> float:
    """Return the two-sided p-value of Fisher's exact test for two counts of `n_a` and `n_b`."""
    events = x_a + x_b
    lowest, highest = max(0, events - n_b), min(n_a, events)
    weights = [math.comb(n_a, k) * math.comb(n_b, events - k) for k in range(lowest, highest + 1)]
    observed = weights[x_a - lowest]
    return sum(weight for weight in weights if weight <= observed) / sum(weights)


def fisher_per_task(
    x_a: IntArray, n_a: IntArray, x_b: IntArray, n_b: IntArray
) -> NDArray[np.float64]:
    """Return Fisher's p-value for every task; arrays of shape (tasks,)."""
    tables, which = np.unique(np.stack((x_a, n_a, x_b, n_b), axis=1), axis=0, return_inverse=True)
    p_values = np.array([fisher_exact(*(int(cell) for cell in table)) for table in tables])
    return p_values[which.reshape(-1)] if len(tables) else np.empty(0)


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """A chi-square statistic with one degree of freedom; `odds_ratio` is the pooled one."""

    statistic: float
    p_value: float
    odds_ratio: float | None = None


def cochran_mantel_haenszel(
    x_a: IntArray, n_a: IntArray, x_b: IntArray, n_b: IntArray
) -> ChiSquare | None:
    """Test B against A over "these exact tasks", without continuity correction.

    It takes the samples of a task as independent and says nothing about other tasks. Tasks with
    one outcome only contribute nothing; None if no task has two.
    """
    total = (n_a + n_b).astype(np.float64)
    events = (x_a + x_b).astype(np.float64)
    useful = (n_a > 0) & (n_b > 0) & (events > 0) & (events < total)
    if not bool(useful.any()):
        return None
    a, na, b, nb = (array[useful].astype(np.float64) for array in (x_a, n_a, x_b, n_b))
    t, m = total[useful], events[useful]
    excess = math.fsum(b - nb * m / t)
    variance = math.fsum(na * nb * m * (t - m) / (t**2 * (t - 1)))
    statistic = excess**2 / variance
    against = math.fsum(a * (nb - b) / t)
    odds = math.fsum(b * (na - a) / t) / against if against > 0 else None
    return ChiSquare(statistic, float(chdtrc(1, statistic)), odds)


def cochran_armitage(
    events: Sequence[int], trials: Sequence[int], scores: Sequence[float]
) -> ChiSquare | None:
    """Test for a linear trend of unpaired proportions; None if nothing varies."""
    x, n, s = (np.asarray(values, dtype=np.float64) for values in (events, trials, scores))
    total = float(n.sum())
    p = float(x.sum()) / total if total else 0.0
    centre = float((n * s).sum()) / total if total else 0.0
    variance = p * (1 - p) * float((n * (s - centre) ** 2).sum())
    if variance <= 0:
        return None
    statistic = float((x * (s - centre)).sum()) ** 2 / variance
    return ChiSquare(statistic, float(chdtrc(1, statistic)))


def two_proportions(x_a: int, n_a: int, x_b: int, n_b: int) -> float:
    """Return the two-sided p-value of the pooled two-proportion z test, for sensitivity only."""
    result = cochran_armitage((x_a, x_b), (n_a, n_b), (0, 1))
    return 1.0 if result is None else result.p_value
