"""Printing: lines with styles for people, JSON for programs."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_infranoise.report.model import Line, Style

_CODES: Mapping[Style, str] = {
    "bold": "1",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "dim": "2",
}


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines, styled on a terminal; nothing in them can steer it."""
    styled = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in lines:
        text = "".join(char if char.isprintable() else " " for char in line.text)
        code = _CODES.get(line.style) if styled else None
        print(text if code is None else f"\x1b[{code}m{text}\x1b[0m")


def terminal_width() -> int | None:
    """Return how many columns the terminal has, None where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object; what is unknown is null."""
    print(json.dumps(value, indent=2, allow_nan=False))
