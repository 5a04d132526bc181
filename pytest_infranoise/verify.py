"""Verification as the task format defines it: tests in, test.sh run, reward read."""

import json
import math

from pytest_infranoise.agents.builtin import script_command
from pytest_infranoise.backends.base import Sandbox, StepResult
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Verdict
from pytest_infranoise.model.task import Task

REWARD_JSON = "/logs/verifier/reward.json"
REWARD_TEXT = "/logs/verifier/reward.txt"
OUTPUT = "/logs/verifier/test-stdout.txt"

MAX_REWARD_BYTES = 64 * 1024


def put_tests(sandbox: Sandbox, task: Task) -> None:
    """Copy the task's tests in, with nothing left that could pass for a reward.

    Raises:
        SandboxError: the old rewards could not be removed (the step was killed, say).
    """
    assert task.tests is not None
    result = sandbox.exec(["sh", "-c", f"rm -rf {REWARD_JSON} {REWARD_TEXT} {OUTPUT}"])
    if result.exit_code != 0:
        raise SandboxError(
            Cause.HARNESS, f"old rewards could not be removed (exit code {result.exit_code})"
        )
    sandbox.put(task.tests, "/tests")


def run_tests(
    sandbox: Sandbox, task: Task, environment: dict[str, str], user: str | None
) -> StepResult:
    """Run `/tests/test.sh`; its exit code means nothing, the reward file decides."""
    return sandbox.exec(
        script_command("/tests/test.sh", output_path=OUTPUT),
        timeout_seconds=task.verifier_timeout_seconds,
        environment={**environment, **task.verifier_environment},
        workdir=task.workdir,
        user=user,
    )


def read_verdict(sandbox: Sandbox, pass_threshold: float) -> Verdict:
    """Read `reward.json`, else `reward.txt`, and judge it against the threshold."""
    content = sandbox.read(REWARD_JSON, max_bytes=MAX_REWARD_BYTES)
    if content is not None:
        return parse_reward_json(content, pass_threshold)
    content = sandbox.read(REWARD_TEXT, max_bytes=MAX_REWARD_BYTES)
    if content is None:
        return Verdict(
            problem=Cause.REWARD_MISSING,
            detail="the tests left neither reward.json nor reward.txt in /logs/verifier",
        )
    return parse_reward_text(content, pass_threshold)


def parse_reward_json(content: bytes, pass_threshold: float) -> Verdict:
    """Judge a `reward.json`: an object of finite numbers.

    The score is the member `reward` if there is one, else the mean of all members.
    """
    try:
        rewards = json.loads(content)
    except (ValueError, RecursionError):
        return _invalid("reward.json is not JSON")
    numbers = list(rewards.values()) if isinstance(rewards, dict) else []
    if not numbers or not all(_is_finite(number) for number in numbers):
        return _invalid("reward.json is not an object of finite numbers")
    score = rewards["reward"] if "reward" in rewards else sum(numbers) / len(numbers)
    return _judged(float(score), pass_threshold)


def parse_reward_text(content: bytes, pass_threshold: float) -> Verdict:
    """Judge a `reward.txt`: one finite number."""
    text = content.decode("utf-8", "replace").strip()
    try:
        score = float(text)
    except ValueError:
        return _invalid(f"reward.txt holds {text[:40]!r}, not a number")
    if not math.isfinite(score):
        return _invalid(f"reward.txt holds {text[:40]!r}, not a finite number")
    return _judged(score, pass_threshold)


def _is_finite(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the range of floats
        return False


def _judged(score: float, pass_threshold: float) -> Verdict:
    return Verdict(passed=score >= pass_threshold, score=score)


def _invalid(detail: str) -> Verdict:
    return Verdict(problem=Cause.REWARD_INVALID, detail=detail)
