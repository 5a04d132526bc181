"""How the values of options are read: each a function for argparse's `type`."""

import math
from collections.abc import Callable

from pytest_infranoise.errors import UsageError
from pytest_infranoise.units import parse_points


def points(option: str) -> Callable[[str], float]:
    """Read `3pp`, `3%` or `0.03` as a proportion."""
    return lambda text: parse_points(text, where=option)


def whole_number(option: str, *, least: int = 1) -> Callable[[str], int]:
    """Read a whole number."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"{option}: {text!r} is not a whole number") from None
        if number < least:
            raise UsageError(f"{option}: {number} is less than {least}")
        return number

    return read


def whole_numbers(option: str) -> Callable[[str], tuple[int, ...]]:
    """Read whole numbers separated by commas."""
    read = whole_number(option)
    return lambda text: tuple(read(word) for word in text.split(","))


def positive(option: str) -> Callable[[str], float]:
    """Read a number above zero."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise UsageError(f"{option}: {text!r} is not a number above 0")
        return number

    return read
