"""Tables: figures with headings for rows and columns, and the map of tasks and sets."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from pytest_infranoise.report.html.elements import name_of, tag
from pytest_infranoise.report.model import Align, capital
from pytest_infranoise.report.page.model import Cell, Facts, Peak, TaskRow
from pytest_infranoise.report.tables import Table, outcome_word


def scrolling(label: str, table: Element) -> Element:
    """Return a table that scrolls by itself where the window is narrow, by keyboard too."""
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex="0")


def table(content: Table) -> Element:
    """Return a table of figures; the first cell of each row is its heading."""
    heads = [
        tag("th", column.heading, scope="col", class_=_side(column.align))
        for column in content.columns
    ]
    rows = []
    for first, *cells in content.rows:
        figures = [
            tag("td", cell, class_=_side(column.align))
            for cell, column in zip(cells, content.columns[1:], strict=True)
        ]
        rows.append(tag("tr", tag("th", name_of(first), scope="row"), *figures))
    made = tag(
        "table",
        tag("caption", capital(content.caption)),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        class_="figures",
    )
    return scrolling(content.caption, made)


def _side(align: Align) -> str | None:
    return "right" if align == ">" else None


def task_table(caption: str, sets: Sequence[str], rows: Sequence[TaskRow]) -> Element:
    """Return tasks by sets: what came out, and how near memory came to its kill threshold."""
    heads = [tag("th", "task", scope="col")]
    heads += [tag("th", name_of(name), scope="col") for name in sets]
    body = [
        tag(
            "tr",
            tag("th", name_of(row.task), scope="row"),
            *(_cell(cell) for cell in row.cells),
        )
        for row in rows
    ]
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
        class_="map",
    )
    return scrolling(caption, made)


def _cell(cell: Cell) -> Element:
    if not cell.counts:
        return tag("td", "not run", class_="none")
    chips: list[Element | str] = []
    for outcome, number in cell.counts:
        word = outcome_word(outcome)
        chips += [tag("span", f"{number} {word}", class_=f"chip {word}"), " "]
    return tag("td", *chips, None if cell.peak is None else _peak(cell.peak))


def _peak(peak: Peak) -> Element:
    words = tag("span", peak.words, class_="peak")
    if peak.share is None:
        return words
    fill = tag("i", style=f"width:{100 * peak.share:.0f}%")
    bar = tag("i", fill, class_="bar killed" if peak.is_killed else "bar")
    bar.set("aria-hidden", "true")
    words.insert(0, bar)
    return words


def fact_list(facts: Facts) -> Element:
    """Return labels with what is known of each."""
    pairs = [tag("div", tag("dt", label), tag("dd", name_of(value, 600))) for label, value in facts]
    return tag("dl", *pairs)
