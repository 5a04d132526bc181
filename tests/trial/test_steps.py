"""What the steps of a task add up to."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxes import make_task

from pytest_infranoise.model.outcome import Cause, Verdict
from pytest_infranoise.model.task import TaskStep
from pytest_infranoise.trial.steps import combine, falls_short, task_of_step
from pytest_infranoise.trial.verify import judged

STEP = TaskStep("one", "One.", (Path("tests"),))
NAMED = st.dictionaries(st.sampled_from("abc"), st.floats(0, 1), min_size=1)


def verdict(**rewards: float) -> Verdict:
    return judged(rewards, 1.0)


@pytest.mark.parametrize(
    ("strategy", "verdicts", "score", "passed"),
    [
        ("mean", [verdict(reward=1)], 1.0, True),
        ("mean", [verdict(reward=1), verdict(reward=0)], 0.5, False),
        ("mean", [verdict(reward=1), verdict(reward=1)], 1.0, True),
        ("mean", [verdict(reward=1), verdict(style=1)], 0.5, False),
        ("mean", [verdict(a=1, b=0), verdict(a=1)], 0.5, False),
        ("final", [verdict(reward=0), verdict(reward=1)], 1.0, True),
        ("final", [verdict(reward=1), verdict(reward=0.5)], 0.5, False),
    ],
)
def test_strategies(strategy: str, verdicts: list[Verdict], score: float, passed: bool) -> None:
    combined = combine(verdicts, strategy, 1.0)  # type: ignore[arg-type]
    assert (combined.score, combined.passed) == (score, passed)


def test_a_threshold_judges_the_combined_score() -> None:
    assert combine([verdict(reward=1), verdict(reward=0)], "mean", 0.5).passed


@pytest.mark.parametrize("strategy", ["mean", "final"])
def test_a_step_without_an_answer_leaves_the_task_without_one(strategy: str) -> None:
    problem = Verdict(problem=Cause.REWARD_MISSING, detail="nothing there")
    assert combine([verdict(reward=1), problem], strategy, 1.0) == problem  # type: ignore[arg-type]


SPOILT = Verdict(detail="the agent changed /bin/sh", by_agent=True)
FULL = Verdict(detail="the disk is full")


@pytest.mark.parametrize(
    ("verdicts", "score", "last"),
    [
        ([SPOILT], None, SPOILT),
        ([FULL, SPOILT], None, SPOILT),
        ([verdict(reward=1), SPOILT], 0.5, SPOILT),
        ([FULL, verdict(reward=1)], 0.5, FULL),
    ],
)
def test_a_step_that_failed_without_rewards_counts_0(
    verdicts: list[Verdict], score: float | None, last: Verdict
) -> None:
    combined = combine(verdicts, "mean", 1.0)
    assert (combined.passed, combined.score) == (False, score)
    assert (combined.detail, combined.by_agent) == (last.detail, last.by_agent)
    assert combine(verdicts, "final", 1.0) == verdicts[-1]


@given(st.lists(NAMED, min_size=1, max_size=5))
def test_a_mean_lies_between_the_least_and_the_most(rewards: list[dict[str, float]]) -> None:
    combined = combine([judged(item, 1.0) for item in rewards], "mean", 1.0)
    assert set(combined.rewards) == {name for item in rewards for name in item}
    for name, mean in combined.rewards.items():
        values = [item.get(name, 0.0) for item in rewards]
        assert min(values) - 1e-9 <= mean <= max(values) + 1e-9


@pytest.mark.parametrize(
    ("least", "given_rewards", "falls"),
    [
        ({}, {"reward": 0.0}, False),
        ({"reward": 0.5}, {"reward": 0.5}, False),
        ({"reward": 0.5}, {"reward": 0.4}, True),
        ({"reward": 0.0}, {"style": 1.0}, True),
        ({"a": 0.1, "b": 0.9}, {"a": 1.0, "b": 0.8}, True),
        ({"a": 0.1, "b": 0.9}, {"a": 1.0, "b": 0.9}, False),
    ],
)
def test_what_falls_short(
    least: dict[str, float], given_rewards: dict[str, float], falls: bool
) -> None:
    step = TaskStep("one", "One.", (Path("tests"),), min_rewards=least)
    assert falls_short(verdict(**given_rewards), step) is falls


def test_a_missing_answer_falls_short_of_any_requirement() -> None:
    assert falls_short(None, TaskStep("one", "", (), min_rewards={"reward": -1.0}))
    assert not falls_short(None, STEP)


def test_a_step_is_the_task_with_its_own_fields() -> None:
    step = TaskStep(
        "two",
        "Two.",
        (Path("shared"), Path("own")),
        solution=Path("solution"),
        agent_timeout_seconds=3,
        verifier_timeout_seconds=4,
        verifier_environment={"A": "1"},
        agent_user="a",
        verifier_user="b",
    )
    task = make_task(steps=(step,), workdir="/app", instruction="All.")
    seen = task_of_step(task, step)
    assert (seen.name, seen.workdir, seen.steps) == (task.name, "/app", ())
    assert (seen.instruction, seen.solution, seen.tests) == ("Two.", step.solution, Path("own"))
    assert (seen.agent_timeout_seconds, seen.verifier_timeout_seconds) == (3, 4)
    assert (seen.agent_user, seen.verifier_user) == ("a", "b")
    assert seen.verifier_environment == {"A": "1"}
