"""Planned looks at a growing study: alpha spending after Lan and DeMets, O'Brien-Fleming type.

Each look may spend part of the error rate; early looks get very little, so that the last one is
almost a test at the full level. The boundaries come from the joint normal distribution of the
statistics at the looks, by recursive numerical integration.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

_GRID = 2001
_REACH = 8.0


@dataclass(frozen=True, slots=True)
class Look:
    """One planned look: number `number` of `of`, after `samples` of `max_samples` samples.

    `level_difference` is the two-sided nominal level for a difference at this look, and
    `level_equivalence` the one-sided nominal level for equivalence.
    """

    number: int
    of: int
    samples: int
    max_samples: int
    level_difference: float
    level_equivalence: float


def planned_looks(max_samples: int, *, looks: int = 3, alpha: float = 0.05) -> tuple[Look, ...]:
    """Return evenly spaced looks at a study of up to `max_samples` samples per task and set."""
    number = min(looks, max_samples)
    samples = sorted({math.ceil(max_samples * step / number) for step in range(1, number + 1)})
    fractions = [count / max_samples for count in samples]
    two_sided = nominal_levels(fractions, alpha)
    # A one-sided claim at alpha is half of a symmetric two-sided one at 2 alpha.
    one_sided = [level / 2 for level in nominal_levels(fractions, 2 * alpha)]
    return tuple(
        Look(position, len(samples), count, max_samples, difference, equivalence)
        for position, (count, difference, equivalence) in enumerate(
            zip(samples, two_sided, one_sided, strict=True), start=1
        )
    )


def spent(fraction: float, alpha: float) -> float:
    """Return the two-sided error spent by the time `fraction` of the information is in.

    Each side spends 2 - 2 Phi(z / sqrt(fraction)) with z the upper alpha / 4 point.
    """
    return float(4 * ndtr(ndtri(alpha / 4) / math.sqrt(fraction)))


def nominal_levels(fractions: Sequence[float], alpha: float) -> tuple[float, ...]:
    """Return the two-sided level for the p-value at each look.

    Args:
        fractions: Information at each look over the planned maximum, rising, the last one 1.
        alpha: The error rate of all looks together.
    """
    levels: list[float] = []
    scores = np.linspace(-_REACH, _REACH, _GRID)
    density = _normal(scores)
    previous = 0.0
    for position, fraction in enumerate(fractions):
        if position:
            density = _step(scores, density, levels[-1], fractions[position - 1], fraction)
        allowance = spent(fraction, alpha) - previous
        levels.append(_level_for(scores, density, allowance, first=position == 0))
        previous += allowance
    return tuple(levels)


def _normal(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)


def _step(
    scores: NDArray[np.float64],
    density: NDArray[np.float64],
    level: float,
    before: float,
    now: float,
) -> NDArray[np.float64]:
    """Return the density of the next look's score among studies that went on."""
    bound = -float(ndtri(level / 2))
    inside = np.linspace(-bound, bound, _GRID)
    carried = np.interp(inside, scores, density)
    weights = np.full(_GRID, inside[1] - inside[0])
    weights[[0, -1]] /= 2
    correlation = math.sqrt(before / now)
    spread = math.sqrt(1 - before / now)
    steps = (scores[:, None] - correlation * inside[None, :]) / spread
    return np.asarray(_normal(steps) @ (carried * weights) / spread)


def _level_for(
    scores: NDArray[np.float64], density: NDArray[np.float64], allowance: float, *, first: bool
) -> float:
    if first:
        return allowance
    width = scores[1] - scores[0]
    half = len(scores) // 2
    upper = density[half:]
    pieces = (upper[1:] + upper[:-1]) * width / 2
    tail = 2 * np.concatenate((np.cumsum(pieces[::-1])[::-1], [0.0]))
    bound = float(np.interp(-allowance, -tail, scores[half:]))
    return float(2 * ndtr(-bound))
