"""Rewards: what passes, what is a score, and what is no answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.model.outcome import Cause, Verdict
from pytest_infranoise.trial.verify import (
    OUTPUT,
    REWARD_TEXT,
    Verification,
    judge,
    parse_reward_json,
    parse_reward_text,
)


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


class Logs:
    """The files of a sandbox after the tests, by path."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        content = self.files.get(path)
        return None if content is None else content[-max_bytes:]


class Listener:
    """A grader that keeps what it is told."""

    heard: tuple[str, str | None] | None = None

    def grade(self, output: str, proof: str | None) -> Verdict:
        self.heard = (output, proof)
        return Verdict(passed=True, score=1.0)


OFFLINE = "curl: (6) Could not resolve host: packages.some.org"


@pytest.mark.parametrize(
    ("output", "heard"),
    [
        (b"fine\n", ("fine\n", None)),
        (b"\xff\n", ("\ufffd\n", None)),
        (OFFLINE.encode(), (OFFLINE, OFFLINE)),
        (None, ("", None)),
    ],
)
def test_a_grader_hears_the_output_and_no_reward(
    output: bytes | None, heard: tuple[str, str | None]
) -> None:
    files = {REWARD_TEXT: b"0"} | ({} if output is None else {OUTPUT: output})
    grader, sandbox = Listener(), Logs(files)
    given: Any = sandbox
    assert judge(given, Verification((), 1.0, grader=grader), 1.0).passed
    assert grader.heard == heard


ASKS, ASKS_NOT = "pytest --ctrf /logs/verifier/ctrf.json\n", "pytest\n"


@pytest.mark.parametrize(
    ("layers", "files", "asks"),
    [
        ([ASKS], {}, True),
        ([ASKS_NOT, ASKS], {}, True),
        ([ASKS, ASKS_NOT], {}, False),
        ([ASKS, None], {}, True),
        ([ASKS], {"test.sh": ASKS_NOT}, False),
        ([], {"test.sh": ASKS}, True),
        ([None], {}, False),
        ([], {}, False),
    ],
)
def test_the_script_on_top_tells_whether_ctrf_is_due(
    tmp_path: Path, layers: list[str | None], files: dict[str, str], asks: bool
) -> None:
    folders = []
    for number, text in enumerate(layers):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        if text is not None:
            (folders[-1] / "test.sh").write_text(text)
    verification = Verification(folders, 1.0, files=files)
    assert verification.asks_for_ctrf is asks
    zero: Any = Logs({REWARD_TEXT: b"0"})
    found = judge(zero, verification, 1.0)
    assert (found.problem is Cause.VERIFIER_BOOTSTRAP) is asks
