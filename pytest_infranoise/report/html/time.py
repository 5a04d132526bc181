"""Charts over time: the outcomes of every set slice by slice, and how results drifted."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from pytest_infranoise.analysis.figures import points
from pytest_infranoise.report.html.elements import name_of, tag
from pytest_infranoise.report.html.svg import Labels, Scale, bounds, line, rectangle, svg, text
from pytest_infranoise.report.page.model import DriftLine, Lane, Timeline
from pytest_infranoise.report.tables import SHOWN_OUTCOMES, outcome_word

_SLICE, _GAP, _LANE_HEIGHT = 10.0, 1.0, 34.0
_WIDTH, _LEFT, _TOP, _PLOT_HEIGHT = 440.0, 8.0, 20.0, 110.0


def lanes(timeline: Timeline, labels: Labels) -> Element:
    """Return one lane per set; a column is a slice of time, a part of it an outcome."""
    rows: list[Element] = []
    for lane in timeline.lanes:
        heading = tag("div", tag("strong", name_of(lane.label)), " ", tag("span", lane.words))
        rows.append(tag("div", heading, _lane(lane, timeline, labels), class_="lane"))
    ends = tag("div", tag("span", timeline.begin), tag("span", timeline.end), class_="ends")
    return tag("div", _patterns(), *rows, ends, _key(), class_="lanes")


def _patterns() -> Element:
    """Return what fills the outcomes that are told apart by more than their colour."""
    hatch = tag("path", d="M-1 7 L7 -1 M5 13 L13 5", class_="stroke")
    dots = tag("circle", cx="3", cy="3", r="1.3", class_="dot")
    cross = tag("path", d="M0 6 L12 6 M6 0 L6 12", class_="stroke")
    patterns = [
        _pattern("oom", "12", hatch, tag("path", d="M-1 13 L13 -1", class_="stroke")),
        _pattern("timeout", "6", dots),
        _pattern("infra", "12", cross),
    ]
    figure = tag("svg", tag("defs", *patterns), width="0", height="0", class_="patterns")
    figure.set("aria-hidden", "true")
    return figure


def _pattern(outcome: str, size: str, *marks: Element) -> Element:
    ground = tag("rect", width=size, height=size, class_=f"ground {outcome}")
    return tag(
        "pattern",
        ground,
        *marks,
        id=f"fill-{outcome}",
        width=size,
        height=size,
        patternUnits="userSpaceOnUse",
    )


def _key() -> Element:
    """Return what each filling stands for."""
    entries = []
    for outcome in SHOWN_OUTCOMES:
        word = outcome_word(outcome)
        swatch = tag("svg", rectangle(0, 0, 18, 12, f"fill {word}"), viewBox="0 0 18 12")
        swatch.set("aria-hidden", "true")
        entries.append(tag("li", swatch, word))
    return tag("ul", *entries, class_="key")


def _lane(lane: Lane, timeline: Timeline, labels: Labels) -> Element:
    unit = _LANE_HEIGHT / timeline.most
    figure = svg(
        labels,
        _SLICE * len(lane.slices),
        _LANE_HEIGHT,
        f"Trials of {lane.label} over time",
        f"{lane.words}, from {timeline.begin} to {timeline.end}, {timeline.note}.",
        *_columns(lane, unit),
    )
    figure.set("preserveAspectRatio", "none")
    return figure


def _columns(lane: Lane, unit: float) -> Iterator[Element]:
    for place, counts in enumerate(lane.slices):
        top = _LANE_HEIGHT
        for outcome, number in zip(SHOWN_OUTCOMES, counts, strict=True):
            if number:
                top -= unit * number
                width = _SLICE - _GAP
                yield rectangle(
                    _SLICE * place, top, width, unit * number, f"fill {outcome_word(outcome)}"
                )


def drift_figure(drift: DriftLine, timeline: Timeline, labels: Labels) -> Element:
    """Return how far a rate lay above or below its tasks' means, part by part.

    All rates of a study share one scale.
    """
    ends = [value for item in timeline.drift for value in item.deviations]
    low, high = bounds([0.0, *ends], step=0.01, least=0.02)
    up = Scale(low, high, _TOP + _PLOT_HEIGHT, _TOP)
    slot = (_WIDTH - 2 * _LEFT) / len(drift.deviations)
    parts: list[Element] = []
    for place, value in enumerate(drift.deviations):
        x, y = _LEFT + slot * place, min(up(value), up(0))
        height = max(1.5, abs(up(value) - up(0)))
        parts.append(rectangle(x + slot * 0.2, y, slot * 0.6, height, "fill drift"))
        above = up(value) - 6 if value >= 0 else up(value) + 15
        parts.append(text(x + slot / 2, above, points(value), "value"))
        begin = timeline.segments[place] if place < len(timeline.segments) else ""
        shown = begin.removesuffix(" UTC").rpartition(" ")[2]
        parts.append(text(x + slot / 2, _TOP + _PLOT_HEIGHT + 34, shown, "tick"))
    parts.append(line(_LEFT, up(0), _WIDTH - _LEFT, up(0), "zero"))
    height = _TOP + _PLOT_HEIGHT + 40
    return svg(labels, _WIDTH, height, f"Drift of {drift.label}", drift.words, *parts)
