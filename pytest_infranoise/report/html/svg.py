"""Small parts of charts: scales, ticks, and figures that can be read without being seen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from xml.etree.ElementTree import Element

from pytest_infranoise.report.html.elements import Child, tag


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight line from values to places; values outside are held at its ends."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


class Labels:
    """Ids for the titles and descriptions of one document's figures."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def next(self) -> str:
        """Return an id that no other figure has."""
        return f"figure-{next(self._numbers)}"


def svg(
    labels: Labels, width: float, height: float, title: str, description: str, *children: Child
) -> Element:
    """Return a figure with title and description for those who do not see it."""
    name = labels.next()
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-description"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-description",
    )


def number(value: float) -> str:
    """Return a coordinate, short."""
    return f"{value:.1f}".removesuffix(".0")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Element:
    """Return a straight line."""
    places = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return tag("line", class_=class_, **{name: number(value) for name, value in places.items()})


def rectangle(x: float, y: float, width: float, height: float, class_: str) -> Element:
    """Return a rectangle."""
    return tag(
        "rect",
        class_=class_,
        x=number(x),
        y=number(y),
        width=number(width),
        height=number(height),
    )


def text(
    x: float, y: float, words: str, class_: str, *, anchor: str = "middle", turned: bool = False
) -> Element:
    """Return a text; `turned` writes it upwards to its end at this place."""
    return tag(
        "text",
        words,
        class_=class_,
        x=number(x),
        y=number(y),
        text_anchor="end" if turned else anchor,
        transform=f"rotate(-40 {number(x)} {number(y)})" if turned else None,
    )


def path(points: Sequence[tuple[float, float]], class_: str) -> Element:
    """Return a line through points."""
    steps = " L".join(f"{number(x)} {number(y)}" for x, y in points)
    return tag("path", class_=class_, d=f"M{steps}")


def bounds(values: Sequence[float], *, step: float, least: float) -> tuple[float, float]:
    """Return whole steps around all values, at least `least` apart."""
    low, high = (
        math.floor(min(values) / step + 1e-9) * step,
        math.ceil(max(values) / step - 1e-9) * step,
    )
    if high - low < least:
        high = low + least
    return low, high


def ticks(low: float, high: float, at_most: int = 6) -> list[float]:
    """Return round numbers between two values, their ends included where those are round."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < at_most:
            return [place * step for place in range(first, last + 1)]
    return [low, high]
