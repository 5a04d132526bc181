"""Parts of a table of outcomes."""

import pytest

from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.table import OutcomeTable


def made() -> OutcomeTable:
    table = OutcomeTable(tasks=["a", "b"], parameter_sets=["1x", "1x-aa", "3x"])
    for sample in (1, 2, 3):
        for task in (0, 1):
            for parameter_set in (0, 1, 2):
                table.add(
                    task,
                    parameter_set,
                    Outcome.OOM if parameter_set < 2 else Outcome.PASSED,
                    cause=Cause.ENDED_PHASE if parameter_set < 2 else None,
                    sample=sample,
                    block=10 * sample + task,
                    oom_kills=2 - parameter_set,
                    started=100.0 * sample,
                    throttled_share=0.25,
                )
    return table


def rows(table: OutcomeTable) -> list[tuple[object, ...]]:
    return [
        (table.tasks[task], table.parameter_sets[parameter_set], *rest)
        for task, parameter_set, *rest in zip(
            table.task,
            table.parameter_set,
            table.sample,
            table.attempt,
            table.block,
            table.outcome,
            table.cause,
            table.oom_kills,
            table.started,
            table.throttled_share,
            strict=True,
        )
    ]


@pytest.mark.parametrize(("last", "number"), [(0, 0), (1, 6), (2, 12), (3, 18), (9, 18)])
def test_up_to_a_sample(last: int, number: int) -> None:
    part = made().up_to_sample(last)
    assert rows(part) == [row for row in rows(made()) if row[2] <= last]
    assert len(part) == number
    assert (part.tasks, part.parameter_sets) == (["a", "b"], ["1x", "1x-aa", "3x"])


@pytest.mark.parametrize("name", ["1x", "1x-aa", "3x"])
def test_without_a_set(name: str) -> None:
    whole = made()
    part = whole.without_set(name)
    assert rows(part) == [row for row in rows(whole) if row[1] != name]
    assert part.parameter_sets == [item for item in whole.parameter_sets if item != name]
    assert rows(whole) == rows(made())


def test_without_a_set_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="9x"):
        made().without_set("9x")
