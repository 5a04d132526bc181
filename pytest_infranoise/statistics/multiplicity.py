"""Corrections for looking at more than one p-value."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values (family-wise error), in the order given."""
    if not p_values:
        return ()
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return tuple(float(value) for value in adjusted)


def fixed_sequence(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values of tests in an order that was fixed before, adjusted to be comparable.

    Each is tested at the full level as long as all before it were significant, so a test's adjusted
    p-value is the largest up to it; family-wise error.
    """
    return tuple(accumulate(p_values, max))


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return Benjamini and Hochberg's adjusted p-values (false discovery rate), same order."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.size == 0:
        return p
    order = np.argsort(p, kind="stable")[::-1]
    factors = len(p) / np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(p[order] * factors))
    return adjusted
