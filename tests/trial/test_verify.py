"""Rewards: what passes, what is a score, and what is no answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.model.outcome import Cause, Verdict
from pytest_infranoise.trial.verify import parse_reward_json, parse_reward_text


@pytest.mark.parametrize(
    ("content", "score"),
    [
        (b"1", 1.0),
        (b"1.0\n", 1.0),
        (b"0", 0.0),
        (b" 0.5 ", 0.5),
        (b"-1", -1.0),
        (b"1e0", 1.0),
        (b"2", 2.0),
    ],
)
def test_reward_text(content: bytes, score: float) -> None:
    assert parse_reward_text(content, 1.0) == Verdict(passed=score >= 1.0, score=score)


@pytest.mark.parametrize("content", [b"", b"\n", b"nan", b"inf", b"-inf", b"yes", b"1 2", b"\xff"])
def test_reward_text_without_an_answer(content: bytes) -> None:
    assert parse_reward_text(content, 1.0).problem is Cause.REWARD_INVALID


@pytest.mark.parametrize(
    ("content", "score"),
    [
        (b'{"reward": 1}', 1.0),
        (b'{"reward": 0.25}', 0.25),
        (b'{"a": 1, "b": 0}', 0.5),
        (b'{"reward": 1, "style": 0}', 1.0),
    ],
)
def test_reward_json(content: bytes, score: float) -> None:
    assert parse_reward_json(content, 1.0) == Verdict(passed=score >= 1.0, score=score)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1",
        b"[]",
        b"{}",
        b"null",
        b'{"reward": NaN}',
        b'{"reward": Infinity}',
        b'{"reward": true}',
        b'{"reward": "1"}',
        b'{"reward": null}',
        b'{"reward": 1, "note": "good"}',
        b'{"reward": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_reward_json_without_an_answer(content: bytes) -> None:
    assert parse_reward_json(content, 1.0).problem is Cause.REWARD_INVALID


def test_a_threshold_turns_a_score_into_a_pass() -> None:
    assert parse_reward_text(b"0.6", 0.5).passed
    assert not parse_reward_text(b"0.6", 0.7).passed


@given(st.binary(max_size=64))
def test_any_bytes_are_an_answer_or_a_problem(content: bytes) -> None:
    for parse in (parse_reward_json, parse_reward_text):
        verdict = parse(content, 1.0)
        assert (verdict.score is None) == (verdict.problem is not None)
