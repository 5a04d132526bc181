"""Equivalence within a margin: two one-sided tests."""

from scipy.special import stdtr


def p_tost(difference: float, se: float, df: int, margin: float) -> float:
    """Return the p-value of "the difference lies outside +-margin", by t.

    It is below alpha exactly when the 1 - 2 alpha interval lies inside +-margin.

    Args:
        difference: The estimated difference, a proportion.
        se: Its standard error, greater than zero.
        df: Degrees of freedom, at least one.
        margin: The largest difference that does not matter, a proportion.
    """
    above_lower = float(stdtr(df, -(difference + margin) / se))
    below_upper = float(stdtr(df, (difference - margin) / se))
    return max(above_lower, below_upper)
