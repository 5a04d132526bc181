"""What a design can detect, and how many samples would settle a question."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from pytest_infranoise.statistics.contrasts import IntArray, count_distinct, distinct_cells

ASSUMED_TRIAL_VARIANCE = 0.10
"""Mean p(1 - p) over tasks where it cannot be estimated: hard and easy tasks, few in between."""

_Z975 = float(ndtri(0.975))
_Z95 = float(ndtri(0.95))
_Z90 = float(ndtri(0.90))
_Z80 = float(ndtri(0.80))
DETECTION = _Z975 + _Z80
"""Standard errors in an effect that a two-sided 5 % test finds with 80 % power."""
EQUIVALENCE = _Z95 + _Z90
"""Standard errors in a margin that equal sets are shown equivalent within, with 80 % power."""


@dataclass(frozen=True, slots=True)
class Variances:
    """Where the spread of task differences comes from.

    `trial` is the mean over tasks of p(1 - p), the coin-flip variance of one trial; `effect` the
    variance between tasks of the true difference. `assumed` says that `trial` is a convention.
    """

    trial: float = ASSUMED_TRIAL_VARIANCE
    effect: float = 0.0
    assumed: bool = True

    def standard_error(self, n_tasks: int, samples: int) -> float:
        """Return the expected standard error of a difference over tasks."""
        return math.sqrt((2 * self.trial / samples + self.effect) / n_tasks)


def minimum_detectable_effect(se: float) -> float:
    """Return the true difference that a test at 5 % finds in 80 of 100 studies."""
    return DETECTION * se


def trial_variance(events: IntArray, trials: IntArray) -> float | None:
    """Return the mean over tasks of the unbiased p(1 - p); None if no task ran two samples."""
    repeated = trials >= 2
    if not bool(np.any(repeated)):
        return None
    x, n, count = distinct_cells(events[repeated], trials[repeated])
    return math.fsum(x * (n - x) / (n * (n - 1)) * count) / int(count.sum())


def estimate_variances(
    x_a: IntArray, n_a: IntArray, x_b: IntArray, n_b: IntArray, variance_of_differences: float
) -> Variances:
    """Split the variance of task differences into coin flips and true differences.

    Args:
        x_a: Events per task in one set, shape (tasks,), and so on; every task ran in both sets.
        n_a: Trials per task.
        x_b: Events per task in the other set.
        n_b: Trials per task in the other set.
        variance_of_differences: The unbiased variance of the task differences.
    """
    estimates = [trial_variance(x_a, n_a), trial_variance(x_b, n_b)]
    known = [value for value in estimates if value is not None]
    trial = sum(known) / len(known) if known else ASSUMED_TRIAL_VARIANCE
    halves = sum(
        math.fsum(count / samples) for samples, count in map(count_distinct, (n_a, n_b))
    ) / (2 * len(n_a))
    effect = max(0.0, variance_of_differences - 2 * trial * halves)
    return Variances(trial, effect, assumed=not known)


def samples_for_equivalence(
    variances: Variances, n_tasks: int, margin: float, *, floored: bool = False
) -> int | None:
    """Return the samples per task and set that would show equal sets equivalent.

    With `floored` the floor of the standard error must come down as well, which matters where
    next to no trial varies. None means that more tasks are needed: more samples cannot help.
    """
    se = margin / EQUIVALENCE
    samples = _samples_for(variances, n_tasks, se)
    if samples is None or not floored:
        return samples
    room = (n_tasks + 2) ** 2 * se**2 - n_tasks * variances.effect
    if room <= 0:
        return None
    return max(samples, math.ceil((2 * n_tasks * variances.trial + 2) / room - 1e-9))


def samples_for_difference(variances: Variances, n_tasks: int, effect: float) -> int | None:
    """Return the samples per task and set that would detect a true difference `effect`."""
    return _samples_for(variances, n_tasks, effect / DETECTION)


def _samples_for(variances: Variances, n_tasks: int, se: float) -> int | None:
    room = n_tasks * se**2 - variances.effect
    if room <= 0:
        return None
    return max(1, math.ceil(2 * variances.trial / room - 1e-9))
