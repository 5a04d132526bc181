"""Equivalence within a margin: two one-sided tests."""

from scipy.special import stdtr


def p_tost(difference: float, se: float, n_tasks: int, margin: float) -> float:
    """Return the p-value of "the difference lies outside +-margin", t with n_tasks - 1 df.

    It is below alpha exactly when the 1 - 2 alpha interval lies inside +-margin.

    Args:
        difference: The estimated difference, a proportion.
        se: Its standard error, greater than zero.
        n_tasks: Paired tasks, at least two.
        margin: The largest difference that does not matter, a proportion.
    """
    df = n_tasks - 1
    above_lower = float(stdtr(df, -(difference + margin) / se))
    below_upper = float(stdtr(df, (difference - margin) / se))
    return max(above_lower, below_upper)
