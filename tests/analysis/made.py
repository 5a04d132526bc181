"""Small studies made of counts."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.table import OutcomeTable

_FILE = Path(__file__).parent.parent / "reference" / "statistics_cases.json"
CASES: dict[str, dict[str, Any]] = {
    case["id"].split("_")[0]: case
    for case in json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
}
ORDER = (Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.OOM, Outcome.INFRA_ERROR)

Row = tuple[str, str, int, int, int, int, int]


def study(rows: Iterable[Any], *, kills: bool = False, timed: bool = False) -> OutcomeTable:
    """Make a table of rows (task, set, passed, failed, timeout, oom, infra).

    With `kills` every trial's kills are known (one for an oom, else none); with `timed` samples
    run one after another, a minute apart.
    """
    table = OutcomeTable()
    for task, name, *counts in rows:
        if task not in table.tasks:
            table.tasks.append(task)
        if name not in table.parameter_sets:
            table.parameter_sets.append(name)
        sample = 0
        for outcome, count in zip(ORDER, counts, strict=True):
            for _ in range(count):
                sample += 1
                table.add(
                    table.tasks.index(task),
                    table.parameter_sets.index(name),
                    outcome,
                    sample=sample,
                    oom_kills=int(outcome is Outcome.OOM) if kills else None,
                    started=60.0 * (sample * 100 + table.tasks.index(task))
                    if timed
                    else float("nan"),
                )
    return table


def shuffled(table: OutcomeTable, order: Iterable[int], repeat: Iterable[int] = ()) -> OutcomeTable:
    """Return the rows in another order, some of them twice."""
    made = OutcomeTable(tasks=list(table.tasks), parameter_sets=list(table.parameter_sets))
    for index in (*order, *repeat):
        for column in COLUMNS:
            getattr(made, column).append(getattr(table, column)[index])
    return made


def merged(*tables: OutcomeTable) -> OutcomeTable:
    """Return all rows of some tables; tasks and sets are matched by name."""
    made = OutcomeTable()
    for table in tables:
        for name in table.tasks:
            if name not in made.tasks:
                made.tasks.append(name)
        for name in table.parameter_sets:
            if name not in made.parameter_sets:
                made.parameter_sets.append(name)
        for index in range(len(table)):
            for column in COLUMNS:
                value = getattr(table, column)[index]
                if column == "task":
                    value = made.tasks.index(table.tasks[value])
                if column == "parameter_set":
                    value = made.parameter_sets.index(table.parameter_sets[value])
                getattr(made, column).append(value)
    return made


COLUMNS = (
    "task",
    "parameter_set",
    "sample",
    "attempt",
    "block",
    "outcome",
    "cause",
    "oom_kills",
    "started",
    "throttled_share",
)
