"""When a run stops because of the same failure over and over."""

import pytest

from pytest_infranoise.plugin.progress import TERMINAL_SECONDS, WaitLine
from pytest_infranoise.plugin.repeats import Repeats


def stops_after(causes: str, limit: int) -> int | None:
    """Return after how many records a run stops; a letter stands for a cause."""
    names = {"s": "sandbox_start", "e": "engine", "a": "engine_away", "m": "host_memory", ".": None}
    repeats = Repeats(limit)
    for number, letter in enumerate(causes, 1):
        if repeats.take({"cause": names[letter], "task": "t", "detail": "d"}):
            return number
    return None


@pytest.mark.parametrize(
    ("causes", "limit", "expected"),
    [
        ("sss", 3, 3),
        ("ss.sss", 3, 6),
        ("ssesse", 3, None),
        ("ssmss", 3, None),  # a kill is a result
        ("mmmm", 3, None),
        ("aaaa", 3, None),  # the engine is waited for
        ("sasas", 3, 5),
        ("ssssss", 0, None),
        ("s", 1, 1),
    ],
)
def test_failures_of_one_cause_in_a_row_are_counted(
    causes: str, limit: int, expected: int | None
) -> None:
    assert stops_after(causes, limit) == expected


def test_it_names_cause_tasks_and_the_last_detail() -> None:
    repeats = Repeats(5)
    found = [
        repeats.take({"cause": "image", "task": name, "detail": f"no {name}"}) for name in "abcda"
    ]
    assert found == [None] * 4 + [
        "5 trials in a row ended by image (a, b, c and 1 more; --infra-max-consecutive-infra); the "
        "last: no a"
    ]


def test_a_wait_is_said_at_once_and_then_seldom() -> None:
    now = [0.0]
    line = WaitLine(clock=lambda: now[0])
    assert [line.is_due("engine"), line.is_due("engine"), line.is_due("again")] == [1, 0, 1]
    now[0] += TERMINAL_SECONDS
    assert [line.is_due("again"), line.is_due("again")] == [True, False]
