"""Which threshold covers what trials need, from peaks and kills, without any distribution.

A trial's *need* N is the smallest threshold under which it would not be killed. One trial tells
only a part of it. A kill at threshold L says N > L: the peak is right-censored there. A trial that
lived under L with the peak P says N <= min(P, L): a peak holds page cache that the kernel would
have given back, so it bounds the need from above. L is the design's choice, never the outcome's, so
the trials that can be judged at a threshold T are fixed in advance, in two ways:

- *measured*: all trials with L >= T. One exceeds T unless it lived and its peak is at most T.
- *direct*: all trials with the largest L <= T that ran. One exceeds T, at worst, if it was killed.

Each count is binomial, and at worst too high. So no product-limit estimate is needed, and the bound
on P(N > T) is exact: that of Clopper and Pearson (1934), Biometrika 26. With x exceeding of n it is
the quantile of Beta(x + 1, n - x); with none it is 1 - (1 - confidence)^(1/n), the one-sided
tolerance limit of Wilks (1941), Ann. Math. Stat. 12. Where the design offers both ways, each takes
half of the error.

A threshold is chosen only if no trial exceeds it, and only above every threshold at which a trial
was killed. If x(T) = 0 at a T that is too low, so it is at the highest such T, hence choosing the
smallest T with x = 0 costs no further error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

HALF = 0.5
"""A bound above this says of no threshold that most trials fit: too few trials."""


class NeedStatus(StrEnum):
    """How well a threshold is known."""

    SHOWN = "shown"
    PROVISIONAL = "provisional"
    AT_LEAST = "at_least"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Needs:
    """Trials of one task, arrays of the same length.

    `limits` are the thresholds, infinity for none; `peaks` what bounds the need of a trial that
    lived, infinity where unknown; `killed` whether it was killed at its threshold (or, with the
    limit infinity, by somebody else before its need could be seen).
    """

    limits: NDArray[np.float64]
    peaks: NDArray[np.float64]
    killed: NDArray[np.bool_]

    @property
    def floor(self) -> float:
        """The highest threshold at which a trial was killed; -infinity for none."""
        return float(np.max(self.limits[self.killed], initial=-np.inf))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the trials say of one threshold: `exceeding` of `n`, and the bound on the rate."""

    n: int
    exceeding: int
    upper: float
    is_measured: bool

    @property
    def expected(self) -> float:
        """The mean rate at which new trials exceed a threshold set by these, or less.

        Between n + 1 trials of one distribution each is as likely as any other to be the one
        beyond the others, so the mean of Beta(x + 1, n - x) is distribution-free. It is the mean
        over all studies of a design; among those that are lucky enough to propose anything it is
        too low if many propose nothing. `upper` holds there too.
        """
        return (self.exceeding + 1) / (self.n + 1)


@dataclass(frozen=True, slots=True)
class Need:
    """The threshold that covers a task, as far as it is known.

    `threshold` and `evidence` are None unless `shown` (the bound is at most the target) or
    `provisional` (it is at most one half). `above` is the highest threshold that is too low.
    """

    status: NeedStatus
    threshold: float | None = None
    evidence: Evidence | None = None
    above: float | None = None


def clopper_pearson_upper(exceeding: int, n: int, confidence: float) -> float:
    """Return the exact one-sided upper bound of a binomial proportion; `n` above zero."""
    return 1.0 if exceeding >= n else float(betaincinv(exceeding + 1, n - exceeding, confidence))


def evidence_at(needs: Needs, threshold: float, *, confidence: float) -> list[Evidence]:
    """Return what each way of judging says of a threshold; empty if no trial can be judged."""
    counts = list(_counts(needs, threshold))
    share = 1 - (1 - confidence) / max(1, len(counts))
    return [
        Evidence(n, x, clopper_pearson_upper(x, n, share), is_measured)
        for n, x, is_measured in counts
    ]


def _counts(needs: Needs, threshold: float) -> Iterator[tuple[int, int, bool]]:
    above = needs.limits >= threshold
    if above.any() and np.isfinite(needs.peaks).any():
        fits = above & ~needs.killed & (needs.peaks <= threshold)
        yield int(above.sum()), int(above.sum() - fits.sum()), True
    below = needs.limits[needs.limits <= threshold]
    if below.size:
        nearest = needs.limits == below.max()
        yield int(nearest.sum()), int((nearest & needs.killed).sum()), False


def covering_threshold(
    needs: Needs, steps: Sequence[float], *, rate: float, confidence: float
) -> Need:
    """Return the smallest step that no trial exceeds, and how sure that is.

    A step whose bound is at most `rate` is taken before a smaller one whose bound is not.

    Args:
        needs: The trials of one task and one agent.
        steps: The thresholds to choose from, ascending.
        rate: The largest rate of kills that a threshold may be shown to have, in (0, 0.5].
        confidence: Of each bound, in (0.5, 1).
    """
    floor = needs.floor
    provisional: Need | None = None
    for step in steps:
        if step <= floor:
            continue
        clear = [
            item
            for item in evidence_at(needs, step, confidence=confidence)
            if item.exceeding == 0 and item.upper <= HALF
        ]
        if not clear:
            continue
        best = min(clear, key=lambda item: item.upper)
        if best.upper <= rate:
            return Need(NeedStatus.SHOWN, step, best, _finite(floor))
        provisional = provisional or Need(NeedStatus.PROVISIONAL, step, best, _finite(floor))
    if provisional is not None:
        return provisional
    known = _finite(floor)
    return Need(NeedStatus.UNKNOWN if known is None else NeedStatus.AT_LEAST, above=known)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def typical_threshold(
    needs: Needs, steps: Sequence[float], *, most: float, confidence: float
) -> float:
    """Return the smallest step below `most` that at least half of the trials fit, else `most`.

    The steps are tested from the top down to the first that fails: a fixed sequence, so the
    confidence holds for the answer. This is the upper confidence limit of the median.
    """
    found = most
    for step in sorted((step for step in steps if step < most), reverse=True):
        bounds = [item.upper for item in evidence_at(needs, step, confidence=confidence)]
        if not bounds or min(bounds) > HALF:
            break
        found = step
    return found


def mean_rate_upper(evidence: Sequence[Evidence], confidence: float) -> float:
    """Return an upper bound on the mean over tasks of the rates at which trials exceed.

    Each task's rate is at most Beta(x + 1, n - x); their mean is taken as the Beta distribution
    with the mean's first two moments, which is exact for one task.
    """
    if not evidence:
        raise ValueError("no task")
    means = np.array([item.expected for item in evidence])
    sizes = np.array([item.n + 1 for item in evidence])
    mean = float(means.mean())
    variance = float((means * (1 - means) / (sizes + 1)).sum()) / len(evidence) ** 2
    if mean >= 1 or variance <= 0:
        return 1.0
    strength = mean * (1 - mean) / variance - 1
    return float(betaincinv(mean * strength, (1 - mean) * strength, confidence))
