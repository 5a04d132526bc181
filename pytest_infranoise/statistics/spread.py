"""The spread between the best and the worst of several sets, beside what chance alone spreads."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pytest_infranoise.statistics.contrasts import IntArray, distinct_cells

RESAMPLES = 9_999
_SEED = 20_260_102
_CELLS = 20_000_000
_TIE_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Spread:
    """max - min of the sets' scores and its null distribution.

    The largest difference is picked after looking, so it is biased upwards: `null_95` is what
    identical sets spread up to in 95 % of studies, `null_mean` on average. `method` is permutation
    or, where that would take too long, normal_limit. With no task that varies `p_value` is 1.
    """

    n_tasks: int
    n_sets: int
    spread: float
    null_mean: float
    null_95: float
    p_value: float
    method: str


def spread(successes: IntArray, trials: IntArray) -> Spread | None:
    """Test whether sets differ at all, by permuting set labels within tasks.

    Args:
        successes: Events, shape (tasks, sets).
        trials: Trials, same shape; tasks without a trial in every set are left out.

    Returns:
        None with fewer than two sets or two complete tasks.
    """
    complete = np.all(trials > 0, axis=1)
    tasks, sets = int(np.count_nonzero(complete)), trials.shape[1]
    if sets < 2 or tasks < 2:
        return None
    means = successes[complete] / trials[complete]
    columns = zip(successes[complete].T, trials[complete].T, strict=True)
    scores = [_mean(*distinct_cells(x, n)) for x, n in columns]
    observed = max(scores) - min(scores)
    varying = means[np.ptp(means, axis=1) > 0]
    # Sorted rows: neither the order nor the names of tasks or sets can change a resample.
    varying = np.sort(varying, axis=1)
    varying = varying[np.lexsort(varying.T)]
    if varying.size * RESAMPLES <= _CELLS:
        null = _permuted(varying) / tasks
        p_value = (1 + int(np.count_nonzero(null >= observed - _TIE_TOLERANCE))) / (RESAMPLES + 1)
        mean, upper, method = float(null.mean()), float(np.quantile(null, 0.95)), "permutation"
    else:
        unit = _limit_scale(varying) / tasks
        # Scores are multiples of 1 / (samples x tasks): the usual correction by half a step.
        step = 1 / (math.lcm(*(int(n) for n in np.unique(trials[complete]))) * tasks)
        p_value = float(1 - _range_cdf(np.array([max(0.0, observed - step / 2) / unit]), sets)[0])
        mean, upper = (unit * value for value in _range_moments(sets))
        method = "normal_limit"
    return Spread(tasks, sets, observed, mean, upper, min(1.0, p_value), method)


def _mean(x: IntArray, n: IntArray, count: IntArray) -> float:
    return math.fsum(x / n * count) / int(count.sum())


def _permuted(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return max - min of the column sums for each resample; rows shape (tasks, sets)."""
    generator = np.random.default_rng(_SEED)
    ranges = np.zeros(RESAMPLES)
    if rows.size == 0:
        return ranges
    batch = max(1, 500_000 // rows.size)
    for start in range(0, RESAMPLES, batch):
        number = min(batch, RESAMPLES - start)
        shuffled = generator.permuted(np.broadcast_to(rows, (number, *rows.shape)), axis=2)
        ranges[start : start + number] = np.ptp(shuffled.sum(axis=1), axis=1)
    return ranges


def _limit_scale(rows: NDArray[np.float64]) -> float:
    """Return the standard deviation of a column sum, were the columns independent.

    Permuting a row gives each cell the row's variance and any two the same negative covariance;
    the range of such sums is that of independent ones with variance C / (C - 1) times as large.
    """
    sets = rows.shape[1]
    return math.sqrt(float(rows.var(axis=1).sum()) * sets / (sets - 1))


def _range_cdf(values: NDArray[np.float64], sets: int) -> NDArray[np.float64]:
    """Return P(range of `sets` standard normals <= value)."""
    z = np.linspace(-9.0, 9.0, 721)
    weights = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    inside = ndtr(z)[None, :] - ndtr(z[None, :] - values[:, None])
    return np.asarray(np.minimum(1.0, sets * (inside ** (sets - 1) @ weights)))


def _range_moments(sets: int) -> tuple[float, float]:
    """Return mean and 95th percentile of the range of `sets` standard normals."""
    grid = np.linspace(0.0, 10.0, 501)
    below = _range_cdf(grid, sets)
    mean = float(np.sum(1 - (below[1:] + below[:-1]) / 2) * (grid[1] - grid[0]))
    return mean, float(np.interp(0.95, below, grid))
