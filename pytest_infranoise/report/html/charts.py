"""The charts: rates over the parameter sets, and lift against the margin.

Own figures of a few lines each, because they take their colours from the page (light, dark and
print), keep their text as text, and carry a title and a description.
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from pytest_infranoise.report.html.elements import tag
from pytest_infranoise.report.html.svg import (
    Labels,
    Scale,
    bounds,
    line,
    number,
    path,
    rectangle,
    svg,
    text,
    ticks,
)
from pytest_infranoise.report.model import one_line
from pytest_infranoise.report.page.model import Effect, Estimate, LiftChart, RateChart
from pytest_infranoise.statistics.intervals import Interval

WIDTH = 440.0
_LEFT, _RIGHT, _TOP = 46.0, 14.0, 16.0
_PLOT_HEIGHT = 220.0
_LETTER = 7.2
_ROW = 34.0
_LABEL_CHARACTERS = 22


# --- rates over the sets ---


def rate_figure(chart: RateChart, labels: Labels, kind: str) -> Element:
    """Return a rate over the sets, a point and its interval each; `kind` is success or infra."""
    known = [item for item in chart.estimates if item.value is not None]
    across = _places(len(chart.estimates))
    low, high = _rate_bounds(known, from_zero=kind == "infra")
    up = Scale(low, high, _TOP + _PLOT_HEIGHT, _TOP)
    is_turned = _is_turned([item.label for item in chart.estimates])
    height = _TOP + _PLOT_HEIGHT + (_turned_height(chart) if is_turned else 30)
    parts = [*_rate_grid(low, high, up)]
    if chart.is_ladder:
        parts += _connection(chart.estimates, across, up, kind)
    has_room = len(chart.estimates) <= 8
    for item, x in zip(chart.estimates, across, strict=True):
        parts += _estimate_marks(item, x, up, kind, with_value=has_room)
        parts.append(_set_label(item.label, x, height, is_turned))
    return svg(labels, WIDTH, height, chart.title, chart.description, *parts)


def _places(sets: int) -> list[float]:
    slot = (WIDTH - _LEFT - _RIGHT) / sets
    return [_LEFT + slot * (place + 0.5) for place in range(sets)]


def _rate_bounds(known: Sequence[Estimate], *, from_zero: bool) -> Interval:
    ends = [end for item in known for end in (item.ci95 or (item.value or 0.0,) * 2)]
    low, high = bounds([*ends, *([0.0] if from_zero else [])], step=0.05, least=0.1)
    return (max(0.0, low - (high - 1.0)), 1.0) if high > 1.0 else (low, high)


def _rate_grid(low: float, high: float, up: Scale) -> list[Element]:
    parts = []
    for value in ticks(low, high):
        parts.append(line(_LEFT, up(value), WIDTH - _RIGHT, up(value), "grid"))
        parts.append(text(_LEFT - 7, up(value) + 4, f"{100 * value:.0f}%", "tick", anchor="end"))
    return parts


def _is_turned(names: Sequence[str]) -> bool:
    slot = (WIDTH - _LEFT - _RIGHT) / len(names)
    return max(map(len, names)) * _LETTER > slot


def _turned_height(chart: RateChart) -> float:
    longest = max(len(_shortened(item.label)) for item in chart.estimates)
    return 24 + 0.64 * _LETTER * longest


def _shortened(name: str) -> str:
    return one_line(name, _LABEL_CHARACTERS)


def _set_label(name: str, x: float, height: float, is_turned: bool) -> Element:
    base = _TOP + _PLOT_HEIGHT
    return text(x, base + (16 if is_turned else 21), _shortened(name), "label", turned=is_turned)


def _connection(
    estimates: Sequence[Estimate], across: Sequence[float], up: Scale, kind: str
) -> list[Element]:
    points = [
        (x, up(item.value))
        for item, x in zip(estimates, across, strict=True)
        if item.value is not None and not item.is_control
    ]
    return [path(points, f"connection {kind}")] if len(points) > 1 else []


def _estimate_marks(
    item: Estimate, x: float, up: Scale, kind: str, *, with_value: bool
) -> list[Element]:
    if item.value is None:
        return [text(x, up(up.low) - 8, "no trial", "tick")]
    parts = []
    if item.ci95 is not None:
        low, high = map(up, item.ci95)
        parts = [line(x, low, x, high, f"whisker {kind}")]
        parts += [line(x - 5, end, x + 5, end, f"whisker {kind}") for end in (low, high)]
    parts.append(_mark(x, up(item.value), f"mark {kind}{' hollow' * item.is_control}", kind))
    if with_value:
        parts.append(_value(item.shown, x, up(item.value)))
    return parts


def _value(shown: str, x: float, y: float) -> Element:
    """Return a figure beside its point, on the side where there is room."""
    is_last = x > WIDTH - _RIGHT - _LETTER * len(shown)
    return text(
        x + (-10 if is_last else 10), y - 7, shown, "value", anchor="end" if is_last else "start"
    )


def _mark(x: float, y: float, class_: str, kind: str) -> Element:
    """Return a circle for success, a diamond for infra errors: form and colour both tell."""
    if kind == "success":
        return tag("circle", class_=class_, cx=number(x), cy=number(y), r="5")
    corners = ((x, y - 6.5), (x + 6.5, y), (x, y + 6.5), (x - 6.5, y))
    shown = " ".join(f"{number(across)},{number(down)}" for across, down in corners)
    return tag("polygon", class_=class_, points=shown)


# --- lift against the margin ---


def lift_figure(chart: LiftChart, labels: Labels) -> Element:
    """Return the lift of every set with its intervals over the band of the margin."""
    bottom = _TOP + _ROW * len(chart.effects)
    low, high = _lift_bounds(chart)
    gutter = 12 + _LETTER * max(len(_shortened(item.label)) for item in chart.effects)
    across = Scale(low, high, gutter, WIDTH - _RIGHT)
    parts = [*_margin_band(chart.margin, across, bottom)]
    for value in ticks(low, high):
        parts.append(line(across(value), _TOP, across(value), bottom, "grid"))
        parts.append(text(across(value), bottom + 17, _signed(value), "tick"))
    parts.append(line(across(0), _TOP, across(0), bottom, "zero"))
    for place, effect in enumerate(chart.effects):
        parts += _effect_marks(effect, _TOP + _ROW * (place + 0.5), across)
    parts.append(text((gutter + WIDTH) / 2, bottom + 35, "lift, points", "tick"))
    return svg(labels, WIDTH, bottom + 42, chart.title, chart.description, *parts)


def _lift_bounds(chart: LiftChart) -> Interval:
    ends = [-1.25 * chart.margin, 1.25 * chart.margin]
    for effect in chart.effects:
        for interval in (effect.ci95, effect.ci90):
            ends += interval or ()
        if effect.difference is not None:
            ends.append(effect.difference)
    low, high = bounds([min(1.0, max(-1.0, end)) for end in ends], step=0.01, least=0.02)
    return low, high


def _margin_band(margin: float, across: Scale, bottom: float) -> list[Element]:
    low, high = across(-margin), across(margin)
    edges = [line(end, _TOP, end, bottom, "margin-edge") for end in (low, high)]
    return [rectangle(low, _TOP, high - low, bottom - _TOP, "margin"), *edges]


def _signed(value: float) -> str:
    return f"{100 * value:+.0f}" if round(100 * value) else "0"


def _effect_marks(effect: Effect, y: float, across: Scale) -> list[Element]:
    parts = [text(0, y + 4, _shortened(effect.label), "label", anchor="start")]
    if effect.difference is None:
        return [*parts, text(across(0), y + 4, "no common task", "tick")]
    for interval, class_ in ((effect.ci95, "interval-95"), (effect.ci90, "interval-90")):
        if interval is not None:
            low, high = map(across, interval)
            parts.append(line(low, y, high, y, class_))
    return [*parts, _mark(across(effect.difference), y, "mark success", "success")]
