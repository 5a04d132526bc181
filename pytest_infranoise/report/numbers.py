"""How figures are written: per cent, points, p-values. None prints "unknown" or a dash."""

from pytest_infranoise.statistics.intervals import Interval

SMALLEST_P = 1e-9
"""The exact test's own numerical error is about 1e-13; smaller p-values mean nothing."""


def percent(proportion: float | None) -> str:
    """Return a proportion as per cent with one decimal."""
    return "unknown" if proportion is None else f"{100 * proportion:.1f}%"


def percent_interval(interval: Interval | None) -> str:
    """Return an interval of proportions in per cent, without the sign."""
    if interval is None:
        return ""
    return f"[{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def points(difference: float | None) -> str:
    """Return a difference of proportions in points, with its sign; a zero has none."""
    if difference is None:
        return "unknown"
    text = f"{100 * difference:+.1f}"
    return "0.0" if float(text) == 0 else text


def points_interval(interval: Interval | None) -> str:
    """Return an interval of differences in points."""
    if interval is None:
        return ""
    return f"[{points(interval[0])}, {points(interval[1])}]"


def p_value(value: float | None) -> str:
    """Return a p-value without its leading zero; never 0.000.

    >>> p_value(0.0123), p_value(0.00004), p_value(1e-12)
    ('.012', '.00004', '< 1e-9')
    """
    if value is None:
        return "-"
    if value < SMALLEST_P:
        return "< 1e-9"
    if value < 0.00001:
        return f"{value:.0e}".replace("e-0", "e-")
    if value < 0.001:
        digits = 5 if value < 0.0001 else 4
        return f"{value:.{digits}f}"[1:]
    return "1" if value > 0.9995 else f"{value:.3f}"[1:]
