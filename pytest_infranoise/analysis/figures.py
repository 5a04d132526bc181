"""How figures are written: percentages, points, p-values."""

from pytest_infranoise.statistics.intervals import Interval

SMALLEST_PRINTED_P = 1e-9


def percent(proportion: float) -> str:
    """Return `50.8%`."""
    return f"{100 * proportion:.1f}%"


def points(difference: float) -> str:
    """Return a difference of proportions in percentage points with its sign, `+6.7`."""
    rounded = round(100 * difference, 1)
    return f"{rounded + 0.0:+.1f}" if rounded else "0.0"


def span(interval: Interval) -> str:
    """Return `+1.6 to +11.9`, in points; nothing lies beyond 100 points."""
    low, high = (min(1.0, max(-1.0, value)) for value in interval)
    return f"{points(low)} to {points(high)}"


def p_value(p: float) -> str:
    """Return `p = 0.012` or `p < 1e-9`; it is never rounded to zero, nor across 0.05."""
    return f"p {_relation(p)}"


def bare_p(p: float) -> str:
    """Return `0.012` or `< 1e-9`."""
    return _relation(p).removeprefix("= ")


def _relation(p: float) -> str:
    if p < SMALLEST_PRINTED_P:
        return "< 1e-9"
    if p < 0.0005:
        mantissa, exponent = f"{p:.1e}".split("e")
        return f"= {mantissa.removesuffix('.0')}e-{abs(int(exponent))}"
    text = f"{p:.3f}" if abs(p - 0.05) >= 0.0005 else f"{p:.4f}"
    return f"= {'1' if text == '1.000' else text}"


def at(parameter_set: str) -> str:
    """Return `at 3x`, or `uncapped`."""
    return parameter_set if parameter_set == "uncapped" else f"at {parameter_set}"


def plural(number: int, noun: str) -> str:
    """Return `1 task`, `3 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: tuple[str, ...], at_most: int = 8) -> str:
    """Return the first names, and how many more there are.

    Names are other people's text: what cannot be printed (control characters) shows as `?`.
    """
    shown = ", ".join(_printable(name) for name in names[:at_most])
    rest = len(names) - at_most
    return f"{shown} and {rest} more" if rest > 0 else shown


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name)
