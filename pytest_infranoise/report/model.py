"""Lines and tables as data; a renderer decides what they look like."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_infranoise.printable import printable

Style = Literal["plain", "bold", "good", "bad", "warn", "dim"]
Align = Literal["<", ">"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text with one style."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and which side its cells lean to."""

    heading: str
    align: Align = "<"


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[Line]:
    """Return a heading and one line per row, columns two blanks apart and just wide enough."""
    body = [tuple(row) for row in rows]
    widths = [
        max([len(column.heading), *(len(row[place]) for row in body)])
        for place, column in enumerate(columns)
    ]

    def joined(cells: Sequence[str]) -> str:
        padded = (
            f"{cell:{column.align}{width}}"
            for cell, column, width in zip(cells, columns, widths, strict=True)
        )
        return "  ".join(padded).rstrip()

    heading = Line(joined([column.heading for column in columns]), "bold")
    return [heading, *(Line(joined(row)) for row in body)]


def one_line(text: str, limit: int = 200) -> str:
    """Return text from outside as one printable line, so that it cannot steer a terminal."""
    shown = "".join(char if char.isprintable() else " " for char in printable(text))
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def capital(text: str) -> str:
    """Return a sentence or heading with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def names_line(names: Sequence[str], limit: int = 8) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(one_line(name, 60) for name in names[:limit])
    hidden = len(names) - limit
    return f"{shown} and {hidden} more" if hidden > 0 else shown
