"""A study's page as Markdown for a pull request's comment or a job's summary.

What others wrote is escaped, so that a task's name neither formats nor links nor calls anybody.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_infranoise.report.model import Column, capital, one_line
from pytest_infranoise.report.page.model import Cell, Page, TaskRow
from pytest_infranoise.report.tables import Table, counts_words

BYTES_AT_MOST = 60_000
"""A comment on GitHub holds 65,536 characters."""

_TEXT_CHARACTERS = 1_000
_NAME_CHARACTERS = 80
_BREAK = "&#8203;"
"""A space of no width: what stands around it is neither a name to call nor a link."""

_SPECIAL = re.compile(r"[\\`*_{}\[\]<>|~&$#]")
_CALLS = re.compile(r"@|(?<=:)(?=//)|(?<=[wW]{3})(?=\.)|(?<=[gG][hH])(?=-\d)")
_STARTS = re.compile(r"^(\d*)([-+.)])(?=[\s-]|$)")


def to_markdown(page: Page) -> str:
    """Return the report as Markdown; one that does not fit into a comment is cut, and says so."""
    room, kept, hidden = BYTES_AT_MOST - 200, list[str](), 0
    for line in _lines(page):
        room -= len(line.encode()) + 1
        if room >= 0:
            kept.append(line)
        else:
            hidden += 1
    if hidden:
        if _is_folded(kept):
            kept += ["", "</details>"]
        kept += ["", f"*Cut here: {hidden} more lines do not fit into a comment.*"]
    return "\n".join(kept) + "\n"


def _is_folded(lines: Sequence[str]) -> bool:
    """Return whether a folded part was begun and not ended."""
    return sum(line.startswith("<details>") for line in lines) > lines.count("</details>")


def _lines(page: Page) -> Iterator[str]:
    yield "## Infrastructure noise"
    yield ""
    yield f"**{escaped(page.headline)}**"
    yield ""
    if page.answer:
        yield from _bullets(page.answer)
        yield ""
    yield from map(_line_break, page.what_ran)
    if page.warnings:
        yield from ("", "> [!WARNING]")
        yield from (f"> {escaped(line)}  " for line in page.warnings)
    yield ""
    yield from _bullets(page.verdict)
    yield from _bullets(page.gates)
    yield from _table(page.sets)
    if page.comparisons is not None:
        yield from _table(page.comparisons)
    yield from ["", *_bullets(page.compared)] if page.compared else []
    yield from _folded("Tasks that moved", _bullets(page.moved))
    yield from _tasks(page)
    yield from _folded("Disclosure card", _pairs(page.card))
    yield from _folded("How it was run", _pairs(page.facts))
    yield from _folded("Methods", _bullets(page.methods))
    yield from ("", f"<sub>{escaped(page.made_by)}; study {escaped(page.study)}</sub>")


def escaped(text: str, limit: int = _TEXT_CHARACTERS) -> str:
    """Return anybody's text as one line that Markdown shows as it is.

    >>> escaped("<b> @all [x](y)")
    '\\\\<b\\\\> @&#8203;all \\\\[x\\\\](y)'
    """
    shown = _SPECIAL.sub(lambda match: "\\" + match[0], one_line(text, limit).strip())
    shown = _CALLS.sub(lambda match: match[0] + _BREAK, shown)
    return _STARTS.sub(r"\1\\\2", shown)


def _line_break(line: str) -> str:
    return escaped(line) + "  "


def _bullets(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"- {escaped(line)}" for line in lines)


def _pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from (f"- **{escaped(label)}**: {escaped(value)}" for label, value in pairs)


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    yield from ("", capital(escaped(table.caption)), "")
    columns = [Column(escaped(column.heading), column.align) for column in table.columns]
    yield from _grid(columns, ([escaped(cell) for cell in row] for row in table.rows))


def _grid(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(column.heading for column in columns)
    yield _row("---:" if column.align == ">" else ":---" for column in columns)
    yield from (_row(row) for row in rows)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tasks(page: Page) -> Iterator[str]:
    """Yield the tasks by sets in a folded table; in a large study those that differ most."""
    content = page.tasks
    if not content.first:
        return
    columns = (Column("task"), *(Column(escaped(name)) for name in content.sets))
    rows = map(_task_cells, content.first)
    hidden = len(content.others) + content.left_out
    lines = [*_grid(columns, rows)]
    if hidden:
        lines += ["", f"and {hidden} more tasks; the HTML report has them"]
    yield from _folded(capital(content.note), lines)


def _task_cells(row: TaskRow) -> list[str]:
    return [escaped(row.task, _NAME_CHARACTERS), *map(_cell, row.cells)]


def _cell(cell: Cell) -> str:
    counts = counts_words(dict(cell.counts))
    return counts if cell.peak is None else f"{counts}; {escaped(cell.peak.words)}"


def _folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    content = list(lines)
    if content:
        yield from ("", f"<details><summary>{summary}</summary>", "", *content, "", "</details>")
