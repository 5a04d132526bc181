"""What a design can detect, and how many samples would settle a question."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from pytest_infranoise.statistics.contrasts import IntArray, distinct_cells

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
class TrialVariance:
    """The mean over tasks of p(1 - p), the coin-flip variance of one trial.

    `assumed` says that it is a convention and no measurement.
    """

    value: float = ASSUMED_TRIAL_VARIANCE
    assumed: bool = True

    def standard_error(self, n_tasks: int, samples: int) -> float:
        """Return the expected standard error of a difference between two sets on these tasks."""
        return math.sqrt(2 * self.value / samples / n_tasks)


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


def pooled_trial_variance(
    x_a: IntArray, n_a: IntArray, x_b: IntArray, n_b: IntArray
) -> TrialVariance:
    """Return what two sets say of a trial's variance; arrays of shape (tasks,)."""
    estimates = [trial_variance(x_a, n_a), trial_variance(x_b, n_b)]
    known = [value for value in estimates if value is not None]
    return TrialVariance(sum(known) / len(known), assumed=False) if known else TrialVariance()


def samples_for_equivalence(variance: TrialVariance, n_tasks: int, margin: float) -> int:
    """Return the samples per task and set that would show equal sets equivalent."""
    return _samples_for(variance, n_tasks, margin / EQUIVALENCE)


def samples_for_difference(variance: TrialVariance, n_tasks: int, effect: float) -> int:
    """Return the samples per task and set that would detect a true difference `effect`."""
    return _samples_for(variance, n_tasks, effect / DETECTION)


def more_samples(se: float, n_a: IntArray, n_b: IntArray, margin: float) -> int | None:
    """Return the samples that would show +-margin, where the study has too few.

    Args:
        se: The standard error of the difference that the study reached.
        n_a: Trials per task in one set, shape (tasks,).
        n_b: Trials per task in the other.
        margin: A proportion.

    Returns:
        None where the answer is no larger than what ran (the difference, not the noise, is in the
        way), or where no cell has two samples, so that the noise is not known.
    """
    most = int(max(n_a.max(), n_b.max()))
    samples = 2 / float(np.mean(1 / n_a + 1 / n_b))
    needed = math.ceil(samples * (se * EQUIVALENCE / margin) ** 2 - 1e-9)
    return needed if most > 1 and needed > most else None


def _samples_for(variance: TrialVariance, n_tasks: int, se: float) -> int:
    """The variance of a difference falls as 1 / samples."""
    return max(1, math.ceil((variance.standard_error(n_tasks, 1) / se) ** 2 - 1e-9))
