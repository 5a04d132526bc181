"""Sizes, core counts and durations: one documented meaning for every spelling.

All size suffixes are binary, because that is what task formats and the Docker command line mean by
them: ``512M``, ``512Mi``, ``512MB``, ``512MiB``, ``0.5G`` and ``536870912`` are the same number of
bytes.
"""

import math
import re
from fractions import Fraction

from pytest_infranoise.errors import UsageError

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_FACTORS = {"": 1, "K": KIB, "M": MIB, "G": GIB, "T": 1024**4}
_SIZE = re.compile(
    r"(?P<number>\d{1,30}(?:\.\d{1,30})?|\.\d{1,30})\s*(?:(?P<prefix>[KMGT])I?)?B?", re.ASCII
)
_POINTS = re.compile(r"(?P<number>\d{1,30}(?:\.\d{1,30})?|\.\d{1,30})\s*(?P<unit>pp|%)?", re.ASCII)


def parse_size(value: str | int | float, *, where: str) -> int:
    """Return the bytes that `value` names; fractions of a byte are dropped.

    `where` names the file and field for the message of the `UsageError` that bad input raises.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{where}: {value!r} is not a size; write for example 512M or 2G")
    match = _SIZE.fullmatch(str(value).strip().upper())
    if match is None:
        raise UsageError(f"{where}: {value!r} is not a size; write for example 512M or 2G")
    size = int(Fraction(match["number"]) * _FACTORS[match["prefix"] or ""])
    if size <= 0:
        raise UsageError(f"{where}: a size must be greater than zero, not {value!r}")
    return size


def whole_number(value: object) -> int | None:
    """Return the whole number that `value` is, however it is spelt; None for anything else.

    >>> [whole_number(value) for value in (512, 512.0, "512", 512.5, True)]
    [512, 512, 512, None, None]
    """
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,30}(\.0*)?\s*", value, re.ASCII):
        return int(value.partition(".")[0])
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_cores(value: str | int | float, *, where: str) -> float:
    """Return a positive number of CPU cores; `where` names file and field for the `UsageError`."""
    try:
        cores = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        cores = math.nan
    if not (math.isfinite(cores) and cores > 0):
        raise UsageError(f"{where}: {value!r} is not a number of CPU cores; write for example 0.5")
    return cores


def parse_seconds(value: str | int | float, *, where: str) -> float:
    """Return a positive number of seconds; `where` names file and field for the `UsageError`."""
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"{where}: {value!r} is not a number of seconds; write for example 600")
    return seconds


def parse_points(text: str, *, where: str) -> float:
    """Return a proportion between 0 and 1: `2pp`, `2%` and `0.02` are the same.

    A bare number from 1 upwards is refused, since it may mean points as well as a proportion.
    `where` names the option for the `UsageError`.

    >>> parse_points("2pp", where="--margin") == parse_points("0.02", where="--margin")
    True
    """
    match = _POINTS.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(f"{where}: {text!r} is not a difference of rates; write 3pp, 3% or 0.03")
    value = Fraction(match["number"]) / (100 if match["unit"] else 1)
    if match["unit"] is None and value >= 1:
        number = match["number"]
        raise UsageError(
            f"{where}: {text!r} may mean points or a proportion; write {number}pp or {number}%"
        )
    if not 0 < value < 1:
        raise UsageError(f"{where}: {text!r} does not lie between 0 and 100 points, or 0% and 100%")
    return float(value)


def format_size(size_bytes: int | None) -> str:
    """Return a size for people, with binary prefixes; None is "uncapped".

    >>> format_size(96 * 1024**2)
    '96 MiB'
    """
    if size_bytes is None:
        return "uncapped"
    for factor, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {name}"
    return f"{size_bytes} B"


def format_cores(cores: float | None) -> str:
    """Return a core count for people; None is "uncapped"."""
    return "uncapped" if cores is None else f"{cores:.4g} cpu"
