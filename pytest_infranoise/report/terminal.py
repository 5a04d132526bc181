"""The summary of a study as lines of text: what ran, what came out, what it shows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_infranoise.analysis import Analysis
from pytest_infranoise.analysis.figures import plural
from pytest_infranoise.analysis.words import detail_lines
from pytest_infranoise.analysis.words_answer import answer_lines
from pytest_infranoise.model.enforcement import enforcement_words
from pytest_infranoise.report.accounts import account_lines
from pytest_infranoise.report.card import card_lines
from pytest_infranoise.report.model import Column, Line, one_line, table_lines
from pytest_infranoise.report.tables import (
    INFRA_NOTE,
    Table,
    comparison_table,
    counts_words,
    set_table,
)
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.study.accounts import is_measured
from pytest_infranoise.study.imported_source import source_words
from pytest_infranoise.study.store import Manifest
from pytest_infranoise.units import format_size


def summary_lines(view: StudyView, *, verbosity: int = 0, width: int | None = None) -> list[Line]:
    """Return the summary: the answer alone below verbosity 0, per task above it.

    Tables that are wider than `width` columns, where that is known, are cut in two.
    """
    analysis = view.analysis
    lines = [Line(text, "bold") for text in answer_lines(analysis)]
    if verbosity >= 0:
        lines += what_ran(view)
        lines += _set_lines(analysis, width)
        compared = comparison_table(analysis)
        lines += [] if compared is None else _fitted(compared, width, cut=4)
        lines += [Line(text) for text in detail_lines(analysis, verbosity=verbosity)]
    if verbosity > 0:
        lines += _task_table(view)
        lines += card_lines(view)
    if verbosity >= 0 and view.directory is not None:
        lines.append(Line(f"study: {view.directory}"))
    return lines


def what_ran(view: StudyView) -> Iterator[Line]:
    """Yield what ran, on what, and what a reader must know before the figures."""
    analysis = view.analysis
    parts = [
        f"{plural(analysis.n_tasks, 'task')} x {plural(len(analysis.sets), 'parameter set')} x "
        f"{_samples(view)}",
        _agent_words(view.manifest),
        _order_words(view.manifest),
    ]
    yield Line(", ".join(parts))
    planned = "" if view.planned is None else f" of {view.planned}"
    yield Line(f"{engine_words(view.manifest)}, {analysis.n_trials}{planned} trials")
    yield from account_lines(view.accounts, can_resume=source_words(view.manifest) is None)
    for note in view.notes:
        yield Line(one_line(note, 200), "warn")
    if view.is_growing:
        yield Line(
            "the study has not ended: figures so far; p-values of repeated looks are nominal",
            "warn",
        )


def _samples(view: StudyView) -> str:
    """Return the samples that were planned, else those that ran."""
    planned = view.manifest.get("samples")
    low, high = view.analysis.samples
    if isinstance(planned, int):
        most = "up to " if view.manifest.get("planned_looks") else ""
        return most + plural(planned, "sample")
    return plural(high, "sample") if low == high else f"{low} to {high} samples"


def _agent_words(manifest: Mapping[str, Any]) -> str:
    name = Manifest(manifest).agent.get("name")
    return "agent unknown" if name is None else f'agent "{one_line(str(name), 60)}"'


def _order_words(manifest: Mapping[str, Any]) -> str:
    order = manifest.get("order")
    if order is None:
        return "order unknown"
    word = one_line(str(order), 20)
    known = {"interleaved": word, "file": "interleaved, tasks in the order of the files"}
    return known.get(word, f"{word} (one parameter set after another)")


def engine_words(manifest: Mapping[str, Any]) -> str:
    """Return backend, engine version, cgroup version and enforcement method in words."""
    engine, source = Manifest(manifest).backend, source_words(manifest)
    if source is not None:
        return one_line(source, 160)
    if not engine:
        return "engine unknown"
    cgroup = "no cgroup" if engine.get("cgroup_version", "") is None else "cgroup unknown"
    if engine.get("cgroup_version"):
        cgroup = f"cgroup v{engine['cgroup_version']}"
    parts = (
        engine.get("engine") or "engine unknown",
        cgroup,
        enforcement_words(manifest) or "enforcement unknown",
    )
    return ", ".join(one_line(str(part), 120) for part in parts)


def _fitted(table: Table, width: int | None, *, cut: int) -> list[Line]:
    """Return a table's lines; one that is too wide becomes two, cut before that column."""
    lines = table_lines(table.columns, table.rows)
    if width is None or max(len(line.text) for line in lines) <= width:
        return lines
    head, tail = slice(0, cut), slice(cut, None)
    return [
        *table_lines(table.columns[head], [row[head] for row in table.rows]),
        *table_lines(
            (table.columns[0], *table.columns[tail]),
            [(row[0], *row[tail]) for row in table.rows],
        ),
    ]


def _set_lines(analysis: Analysis, width: int | None) -> list[Line]:
    heading, *rows = _fitted(set_table(analysis), width, cut=6)
    noted = f"{heading.text}   ({INFRA_NOTE})"
    if width is None or (len(noted) <= width and len(rows) == len(analysis.sets)):
        return [Line(noted, "bold"), *rows]
    return [heading, *rows, Line(f"({INFRA_NOTE})", "dim")]


def _task_table(view: StudyView) -> list[Line]:
    """One row per task: what it did in each set, as outcome counts."""
    ids = [item.id for item in view.analysis.sets]
    columns = [Column("task"), *(Column(name) for name in ids)]
    rows = [
        [one_line(task, 60), *(counts_words(by_set.get(name)) for name in ids)]
        for task, by_set in view.outcomes_by_task.items()
    ]
    return table_lines(columns, rows)


def trial_lines(records: Sequence[Mapping[str, Any]], limit: int | None) -> list[Line]:
    """Return one line per trial that ended by a kill, a deadline or the infrastructure.

    pytest itself prints failures only for trials that plainly failed; attempts that measured
    nothing are summed up elsewhere. `limit` None prints all.
    """
    ended = [item for item in records if is_measured(item)]
    special = [item for item in ended if item["outcome"] not in ("passed", "failed")]
    lines = [_trial_line(item) for item in special[:limit]]
    if limit is not None and len(special) > limit:
        lines.append(Line(f"... and {len(special) - limit} more; -v prints all", "dim"))
    return lines


def _trial_line(record: Mapping[str, Any]) -> Line:
    word = {"oom": "OOM", "timeout": "TIMEOUT"}.get(record["outcome"], "INFRA")
    place = f"{record['task']} {record['parameter_set']}-s{record['sample']}"
    cause = f" {record['cause']}" if record["cause"] else ""
    detail = f": {one_line(record['detail'], 120)}" if record["detail"] else ""
    if record["outcome"] == "oom" and record["memory_limit_bytes"] is not None:
        detail += f", limit {format_size(record['memory_limit_bytes'])}"
    return Line(f"{word} {one_line(place, 80)}{cause}{detail}")
