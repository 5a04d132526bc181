"""The document: the answer first, then what it rests on."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple
from xml.etree.ElementTree import Element

from pytest_infranoise.report.html.charts import lift_figure, rate_figure
from pytest_infranoise.report.html.elements import (
    Child,
    document_text,
    name_of,
    preformatted,
    tag,
)
from pytest_infranoise.report.html.svg import Labels
from pytest_infranoise.report.html.tables import fact_list, table, task_table
from pytest_infranoise.report.html.time import drift_figure, lanes
from pytest_infranoise.report.model import capital
from pytest_infranoise.report.page.model import MEANINGS, LiftChart, Page, TrialNote
from pytest_infranoise.report.tables import SHOWN_OUTCOMES, outcome_word

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for this file: nothing. Its own style is inside."""


_LINE_CHARACTERS = 600
"""The longest sentence; names of other people's making stand in them."""


_LINES_SHOWN = 8


class Section(NamedTuple):
    """A part of the document with a heading of its own."""

    id: str
    heading: str
    content: list[Element]


def to_html(page: Page) -> str:
    """Return the report as one HTML document."""
    sections = [part for part in _sections(page, Labels()) if part.content]
    body = tag(
        "body",
        _header(page),
        _navigation(sections),
        tag("main", *map(_section, sections)),
        tag("footer", tag("p", page.made_by)),
    )
    root = tag("html", _head(page), body, lang="en")
    style = files("pytest_infranoise.report.html").joinpath("page.css").read_text("utf-8")
    return document_text(root, style)


def _head(page: Page) -> Element:
    policy = tag("meta", http_equiv="Content-Security-Policy", content=_POLICY)
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        policy,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"Infrastructure noise: {page.study}"),
    )


def _header(page: Page) -> Element:
    return tag(
        "header",
        tag("p", "Infrastructure noise report", class_="kind"),
        tag("h1", capital(page.headline)),
        *(tag("p", capital(line), class_="answer") for line in page.answer),
        *(tag("p", line, class_="ran") for line in page.what_ran),
    )


def _navigation(sections: Sequence[Section]) -> Element:
    links = [tag("li", tag("a", part.heading, href=f"#{part.id}")) for part in sections]
    return tag("nav", tag("ul", *links), aria_label="Sections")


def _section(part: Section) -> Element:
    heading = tag("h2", part.heading, id=f"{part.id}-heading")
    return tag("section", heading, *part.content, id=part.id, aria_labelledby=f"{part.id}-heading")


def _sections(page: Page, labels: Labels) -> Iterator[Section]:
    yield Section("rates", "Success and infra errors", _rates(page, labels))
    yield Section("warnings", "Warnings", _list(page.warnings))
    yield Section("verdict", "What stands behind it", _list(page.verdict))
    yield Section("gates", "Gates", _list(page.gates))
    yield Section("lift", "Lift against the margin", _lift(page, labels))
    yield Section("tasks", "Tasks", _tasks(page))
    yield Section("time", "Over time", _time(page, labels))
    yield Section("trials", "Kills, timeouts and errors", _trials(page))
    yield Section("setup", "How it was run", _setup(page))
    yield Section("methods", "Methods", _methods(page))
    yield Section("manifest", "Manifest", [_folded("the whole manifest", page.manifest)])


def _list(lines: Iterable[str]) -> list[Element]:
    items = [tag("li", name_of(line, _LINE_CHARACTERS)) for line in lines]
    return [tag("ul", *items)] if items else []


def _rates(page: Page, labels: Labels) -> list[Element]:
    figures = [
        _figure(chart.title, rate_figure(chart, labels, kind))
        for chart, kind in ((page.success, "success"), (page.infra_errors, "infra"))
        if chart is not None
    ]
    note = "Mean over tasks, with 95% intervals. Infra errors are oom and infra together."
    drawn = [tag("div", *figures, class_="pair"), tag("p", note, class_="note")] if figures else []
    return [*drawn, table(page.sets)] if page.sets.rows else drawn


def _figure(title: str, drawing: Element, *more: Child) -> Element:
    return tag("figure", tag("figcaption", title), drawing, *more)


def _lift(page: Page, labels: Labels) -> list[Element]:
    if page.lift is None:
        return []
    words = tag("ul", *(_effect_words(page.lift, page.compared)), class_="effects")
    drawing = _figure(page.lift.title, lift_figure(page.lift, labels))
    compared = [] if page.comparisons is None else [table(page.comparisons)]
    return [
        tag("div", drawing, words, class_="pair"),
        tag("p", page.lift.note, class_="note"),
        *compared,
    ]


def _effect_words(chart: LiftChart, compared: Sequence[str]) -> Iterator[Element]:
    """Yield the figures of every set with its status, and what else each shows."""
    for effect in chart.effects:
        name = tag("strong", name_of(effect.label))
        own = [line for line in compared if line.startswith(f"{effect.label}: ")]
        others = [line.removeprefix(f"{effect.label}: ") for line in own]
        more = [tag("span", line) for line in others if not effect.words.endswith(line)]
        yield tag("li", name, f": {effect.words}", *more)


def _tasks(page: Page) -> list[Element]:
    content = page.tasks
    if not content.first:
        return []
    made = [
        *_moves(page.moved),
        _legend(),
        task_table(capital(content.note), content.sets, content.first),
    ]
    if content.others:
        summary = f"the other {len(content.others)} tasks, in the study's order"
        others = task_table(capital(summary), content.sets, content.others)
        made.append(tag("details", tag("summary", capital(summary)), others))
    if content.left_out:
        made.append(tag("p", f"{content.left_out} more tasks are not shown.", class_="note"))
    return made


def _moves(lines: Sequence[str]) -> list[Element]:
    """Return which tasks moved, folded where that is long."""
    listed = _list(lines)
    if len(lines) <= _LINES_SHOWN:
        return listed
    return [tag("details", tag("summary", "Which tasks moved between the sets"), *listed)]


def _legend() -> Element:
    chips: list[Child] = []
    for outcome in SHOWN_OUTCOMES:
        word = outcome_word(outcome)
        chip = tag("span", word, class_=f"chip {word}")
        chips.append(tag("li", chip, f" {MEANINGS[outcome]}"))
    return tag("ul", *chips, class_="legend")


def _time(page: Page, labels: Labels) -> list[Element]:
    if page.timeline is None:
        return []
    note = (
        f"Trials by their start, {page.timeline.note}. In an interleaved study the lanes fill "
        "alike."
    )
    drifts = [
        _figure(f"Drift of {item.label}", drift_figure(item, page.timeline, labels))
        for item in page.timeline.drift
    ]
    said = [tag("p", capital(item.words) + ".", class_="note") for item in page.timeline.drift]
    pair = [tag("div", *drifts, class_="pair")] if drifts else []
    return [lanes(page.timeline, labels), tag("p", note, class_="note"), *pair, *said]


def _trials(page: Page) -> list[Element]:
    made = [_trial(note) for note in page.trials]
    if page.trials_left_out:
        words = f"{page.trials_left_out} more are not shown; infranoise export writes all."
        made.append(tag("p", words, class_="note"))
    return made


def _trial(note: TrialNote) -> Element:
    outputs = []
    for heading, output in note.outputs:
        outputs += [tag("p", heading, class_="phase"), preformatted(output)]
    nothing = None if outputs else tag("p", "no output was kept", class_="note")
    return tag(
        "details",
        tag("summary", *_heading(note)),
        tag("p", note.facts, class_="note"),
        *outputs,
        nothing,
    )


def _heading(note: TrialNote) -> list[Child]:
    """Return a trial's line with its task's name kept apart from what stands around it."""
    before, name, after = note.heading.partition(note.task)
    return [before, tag("bdi", name), after] if name else [tag("bdi", note.heading)]


def _setup(page: Page) -> list[Element]:
    return [
        tag("h3", "Facts"),
        fact_list(page.facts),
        tag("h3", "Disclosure card"),
        fact_list(page.card),
    ]


def _methods(page: Page) -> list[Element]:
    if not page.methods:
        return []
    return [
        *_list(page.methods),
        tag("h3", "The same data by other conventions"),
        *_list(page.sensitivity),
    ]


def _folded(summary: str, content: str) -> Element:
    return tag("details", tag("summary", capital(summary)), preformatted(content))
