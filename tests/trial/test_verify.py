"""Rewards: what passes, what is a score, and what is no answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.backends.base import StepResult
from pytest_infranoise.model.outcome import Cause, Ending, Verdict
from pytest_infranoise.trial.verify import (
    REWARD_TEXT,
    Verification,
    blame,
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
    """What a sandbox holds after the tests: files by name, and what an agent has changed."""

    def __init__(self, files: Mapping[str, bytes], changed: Sequence[str] = ()) -> None:
        self.files, self.changed = files, changed

    def read_folder(self, path: str, max_bytes: Mapping[str, int]) -> Mapping[str, bytes]:
        assert path == "/logs/verifier"
        names = self.files.keys() & max_bytes.keys()
        return {name: self.files[name][-max_bytes[name] :] for name in names}

    def program(self, name: str) -> str:
        return f"/bin/{name}"

    def altered(self, paths: Sequence[str]) -> str | None:
        return next((path for path in paths if path in self.changed), None)


def ended(output: str = "", exit_code: int | None = 0, ending: Ending = Ending.EXIT) -> StepResult:
    return StepResult(ending, exit_code, 1.0, output)


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
        ("fine\n", ("fine\n", None)),
        (OFFLINE, (OFFLINE, OFFLINE)),
        ("", ("", None)),
    ],
)
def test_a_grader_hears_the_output_and_no_reward(
    output: str, heard: tuple[str, str | None]
) -> None:
    grader = Listener()
    given: Any = Logs({REWARD_TEXT: b"0"})
    assert judge(given, Verification((), 1.0, grader=grader), ended(output), 1.0).passed
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
    found = judge(zero, verification, ended(), 1.0)
    assert (found.problem is Cause.VERIFIER_BOOTSTRAP) is asks


MISSING = Verdict(problem=Cause.REWARD_MISSING)
KILLED = ended(exit_code=None, ending=Ending.DEADLINE)


@pytest.mark.parametrize(
    ("changed", "user", "result", "verdict", "is_blamed"),
    [
        (["/bin/bash"], None, ended(), MISSING, True),
        (["/bin/bash"], None, ended(), Verdict(problem=Cause.REWARD_INVALID), True),
        (["/bin/bash"], None, KILLED, Verdict(score=0.0), True),
        (["/bin/bash"], None, ended(), Verdict(score=0.0), False),
        (["/bin/bash"], None, KILLED, Verdict(passed=True, score=1.0), False),
        (["/bin/bash"], None, ended(), Verdict(problem=Cause.VERIFIER_BOOTSTRAP), False),
        (["/bin/other"], None, ended(), MISSING, False),
        (["/etc/passwd"], "bob", ended(exit_code=126), MISSING, True),
        (["/etc/passwd"], "bob", ended(exit_code=1), MISSING, False),
        (["/etc/passwd"], None, ended(exit_code=126), MISSING, False),
    ],
)
def test_an_agent_that_took_the_means_of_the_tests_away_has_failed(
    changed: list[str], user: str | None, result: StepResult, verdict: Verdict, is_blamed: bool
) -> None:
    verification = Verification((), 1.0, files={"test.sh": "true\n"}, user=user)
    sandbox: Any = Logs({}, changed)
    found = blame(sandbox, verification, result, verdict)
    assert found.by_agent is is_blamed
    assert is_blamed or found == verdict
