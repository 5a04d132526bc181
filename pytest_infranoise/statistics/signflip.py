"""The exact sign-flip test on integer task contrasts.

Under the null hypothesis each task's contrast is as likely to have either sign. The distribution of
the sum over all sign assignments is read from its characteristic function, a product of cosines,
by one inverse Fourier transform: no seed, no Monte Carlo. With one sample per task it is exactly
McNemar's exact test.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_infranoise.statistics.contrasts import Contrast

FloatArray = NDArray[np.floating[Any]]

EXACT_POINTS = 2**22
"""The longest Fourier transform; beyond it the test enumerates or draws at random."""
MOST_WORK = 5_000_000
"""Points of the transform times distinct contrasts, with the same consequence."""
ENUMERABLE_TASKS = 20
DRAWS = 99_999
_SEED = 20_260_101
_NEGLIGIBLE_LOG = -80.0
_TIE_TOLERANCE = 1e-9
_INT64_SAFE = 2**62


@dataclass(frozen=True, slots=True)
class SignFlip:
    """A two-sided test of "no task changed systematically".

    `smallest_p` is the smallest p-value that this many differing tasks can give. `exact` is False
    where the p-value was estimated from `DRAWS` random sign assignments.
    """

    p_value: float
    n_differing: int
    smallest_p: float
    exact: bool = True


def sign_flip(contrast: Contrast) -> SignFlip:
    """Test a contrast against zero."""
    magnitudes = _magnitudes(contrast)
    n_differing = sum(magnitudes.values())
    if n_differing == 0:
        return SignFlip(1.0, 0, 1.0)
    smallest = 2.0 ** (1 - n_differing)
    divisor = math.gcd(*magnitudes)
    observed = abs(contrast.total) // divisor
    if observed == 0:
        return SignFlip(1.0, n_differing, smallest)
    steps = {size // divisor: count for size, count in magnitudes.items()}
    p_value, exact = _two_sided(steps, observed, n_differing)
    return SignFlip(min(1.0, max(p_value, smallest)), n_differing, smallest, exact)


def _magnitudes(contrast: Contrast) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for value, count in zip(contrast.values, contrast.counts, strict=True):
        if value != 0:
            sizes[abs(value)] = sizes.get(abs(value), 0) + count
    return dict(sorted(sizes.items()))


def _two_sided(steps: dict[int, int], observed: int, n_differing: int) -> tuple[float, bool]:
    reach = sum(size * count for size, count in steps.items())
    points = 2 * reach + 1
    is_long = points > EXACT_POINTS or points * len(steps) > MOST_WORK
    if n_differing <= ENUMERABLE_TASKS and (2**n_differing <= points or is_long):
        return _by_enumeration(steps, observed, reach), True
    if not is_long:
        return _by_fourier(steps, observed, reach), True
    return _by_drawing(steps, observed, reach), False


def _by_fourier(steps: dict[int, int], observed: int, reach: int) -> float:
    points = _even_fast_length(2 * reach + 1)
    half = points // 2 + 1
    log_size = np.zeros(half)
    negative = np.zeros(half, dtype=bool)
    active = np.arange(half)
    # Most points vanish after the first few factors; the rest of the product skips them.
    for size, count in sorted(steps.items(), key=lambda item: (-item[1], item[0])):
        angle = (active * size % points) * (2 * math.pi / points)
        cosine = np.cos(angle)
        log_size[active] += count * _log_abs_cosine(angle, cosine)
        if count % 2:
            negative[active] ^= cosine < 0
        kept = log_size[active] > _NEGLIGIBLE_LOG
        log_size[active[~kept]] = -np.inf
        active = active[kept]
    characteristic = np.exp(log_size)
    characteristic[negative] *= -1
    probabilities = np.fft.irfft(characteristic, points)
    tail = probabilities[observed : reach + 1]
    return 2.0 * float(np.sum(np.maximum(tail, 0.0)))


def _log_abs_cosine(angle: FloatArray, cosine: FloatArray) -> FloatArray:
    """Return log |cos(angle)|, with full relative precision where it is near zero.

    It is multiplied by thousands of tasks, so that the error of a plain log(cos) would show.
    """
    squared_sine = np.sin(angle) ** 2
    with np.errstate(divide="ignore"):
        return np.where(squared_sine < 0.25, 0.5 * np.log1p(-squared_sine), np.log(np.abs(cosine)))


def _even_fast_length(at_least: int) -> int:
    """Return an even length at or above `at_least` whose only factors are 2, 3 and 5."""
    best = 1 << max(1, (at_least - 1).bit_length())
    for fives in (1, 5, 25):
        for threes in (1, 3, 9):
            odd = fives * threes
            quotient = -(-at_least // odd)
            best = min(best, odd << max(1, (quotient - 1).bit_length()))
    return best


def _by_enumeration(steps: dict[int, int], observed: int, reach: int) -> float:
    kind: type = np.int64 if reach < _INT64_SAFE else object
    sums: NDArray[Any] = np.zeros(1, dtype=kind)
    for size, count in steps.items():
        for _ in range(count):
            sums = np.concatenate((sums + size, sums - size))
    return float(np.mean(np.abs(sums) >= observed))


def _by_drawing(steps: dict[int, int], observed: int, reach: int) -> float:
    generator = np.random.default_rng(_SEED)
    sums: FloatArray = np.zeros(DRAWS)
    for size, count in steps.items():
        # A single task needs one bit, which is ten times as fast.
        single = count == 1
        plus = (
            generator.integers(0, 2, DRAWS, np.int8)
            if single
            else generator.binomial(count, 0.5, DRAWS)
        )
        sums += (2.0 * plus - count) * (size / reach)
    hits = int(np.count_nonzero(np.abs(sums) >= observed / reach - _TIE_TOLERANCE))
    return (1 + hits) / (DRAWS + 1)
