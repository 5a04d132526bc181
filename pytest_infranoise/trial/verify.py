"""Verification as the task format defines it: tests in, test.sh run, reward read."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_infranoise.agents.files import put_folder
from pytest_infranoise.agents.shell import script_command
from pytest_infranoise.backends.base import Sandbox, StepResult
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Verdict
from pytest_infranoise.model.task import Grader
from pytest_infranoise.trial.bootstrap import Proof, asks_for_ctrf, proof_of_failed_bootstrap
from pytest_infranoise.trial.network import fetches

REWARD_JSON = "/logs/verifier/reward.json"
REWARD_TEXT = "/logs/verifier/reward.txt"
CTRF = "/logs/verifier/ctrf.json"
OUTPUT = "/logs/verifier/test-stdout.txt"

MAX_REWARD_BYTES = 64 * 1024
MAX_SEARCHED_OUTPUT_BYTES = 1024 * 1024
"""How much of the tests' output is searched for what kept them from running: its end."""
MAX_GRADED_OUTPUT_BYTES = 64 * 1024 * 1024
"""How much of the tests' output a grader gets: its end."""


@dataclass(frozen=True, slots=True)
class Verification:
    """One run of a task's tests.

    `tests` are host folders whose files lie over one another, the last on top; `files` are texts by
    name that lie over these; `script` among them is what runs; `is_in_place` says that the image
    has them already. `user` None is root. With a `grader` it judges the output, and no reward is
    read.
    """

    tests: Sequence[Path]
    timeout_seconds: float
    files: Mapping[str, str] = field(default_factory=dict)
    script: str = "test.sh"
    grader: Grader | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    is_in_place: bool = False

    @property
    def asks_for_ctrf(self) -> bool:
        """Whether the script tells its runner to write a `ctrf.json`."""
        text = self._text(self.script)
        return text is not None and asks_for_ctrf(text)

    @property
    def fetches(self) -> bool:
        """Whether one of the shell scripts can use the network; so too where none can be read."""
        texts = [text for name in self._scripts() if (text := self._text(name)) is not None]
        return not texts or any(map(fetches, texts))

    def _scripts(self) -> Iterator[str]:
        yield self.script
        yield from (name for name in self.files if name.endswith(".sh"))
        for folder in self.tests:
            yield from (str(path.relative_to(folder)) for path in folder.rglob("*.sh"))

    def _text(self, name: str) -> str | None:
        """Return the text of a test file as it will lie in /tests, None where there is none."""
        if name in self.files:
            return self.files[name]
        paths = [folder / name for folder in self.tests]
        found = [path for path in paths if path.is_file()]
        try:
            return found[-1].read_text("utf-8", "replace") if found else None
        except OSError:
            return None


def put_tests(sandbox: Sandbox, verification: Verification) -> None:
    """Copy the tests to /tests, with nothing left that could pass for a reward.

    Raises:
        SandboxError: the old rewards could not be removed (the step was killed, say).
    """
    stale = f"rm -rf {REWARD_JSON} {REWARD_TEXT} {CTRF} {OUTPUT}"
    result = sandbox.exec(["sh", "-c", stale])
    if result.exit_code != 0:
        raise SandboxError(
            Cause.HARNESS, f"old rewards could not be removed (exit code {result.exit_code})"
        )
    if not verification.is_in_place:
        put_folder(sandbox, "/tests", verification.tests, verification.files)


def run_tests(sandbox: Sandbox, verification: Verification) -> StepResult:
    """Run the script in /tests; its exit code means nothing, the reward file decides."""
    return sandbox.exec(
        script_command(f"/tests/{verification.script}", output_path=OUTPUT),
        timeout_seconds=verification.timeout_seconds,
        environment=verification.environment,
        workdir=verification.workdir,
        user=verification.user,
    )


def judge(sandbox: Sandbox, verification: Verification, pass_threshold: float) -> Verdict:
    """Read the reward and judge it; a 0 of tests that never ran is no judgement."""
    if verification.grader is not None:
        graded = sandbox.read(OUTPUT, max_bytes=MAX_GRADED_OUTPUT_BYTES) or b""
        text = graded.decode("utf-8", "replace")
        proof = proof_of_failed_bootstrap(text, fetches=verification.fetches)
        verdict = verification.grader.grade(text, None if proof is None else proof.line)
        return _with_network(verdict, proof)
    verdict = read_verdict(sandbox, pass_threshold)
    is_zero = verdict.score is not None and verdict.score <= 0 and not verdict.passed
    if not is_zero and verdict.problem is not Cause.REWARD_MISSING:
        return verdict
    output = sandbox.read(OUTPUT, max_bytes=MAX_SEARCHED_OUTPUT_BYTES)
    proof = proof_of_failed_bootstrap(
        (output or b"").decode("utf-8", "replace"),
        # A missing reward is an error already: here only a line can say more about it.
        asks_for_ctrf=is_zero and verification.asks_for_ctrf,
        has_ctrf=bool(sandbox.read(CTRF, max_bytes=1)),  # an empty one was only made room for
        fetches=verification.fetches,
    )
    if proof is None:
        return verdict
    return _with_network(Verdict(problem=Cause.VERIFIER_BOOTSTRAP, detail=proof.line), proof)


def _with_network(verdict: Verdict, proof: Proof | None) -> Verdict:
    """Note on a verdict about the bootstrap whether it was the network that failed."""
    is_network = proof is not None and proof.is_network
    return replace(
        verdict, network_failed=is_network and verdict.problem is Cause.VERIFIER_BOOTSTRAP
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
    """Judge a `reward.json`: an object of finite numbers (`judged`)."""
    try:
        rewards = json.loads(content)
    except (ValueError, RecursionError):
        return _invalid("reward.json is not JSON")
    numbers = list(rewards.values()) if isinstance(rewards, dict) else []
    if not numbers or not all(_is_finite(number) for number in numbers):
        return _invalid("reward.json is not an object of finite numbers")
    return judged({name: float(number) for name, number in rewards.items()}, pass_threshold)


def parse_reward_text(content: bytes, pass_threshold: float) -> Verdict:
    """Judge a `reward.txt`: one finite number."""
    text = content.decode("utf-8", "replace").strip()
    try:
        score = float(text)
    except ValueError:
        return _invalid(f"reward.txt holds {text[:40]!r}, not a number")
    if not math.isfinite(score):
        return _invalid(f"reward.txt holds {text[:40]!r}, not a finite number")
    return judged({"reward": score}, pass_threshold)


def judged(rewards: Mapping[str, float], pass_threshold: float) -> Verdict:
    """Judge named rewards, at least one: the score is `reward`, else the mean of all."""
    score = rewards.get("reward")
    if score is None:
        score = math.fsum(rewards.values()) / len(rewards)
    return Verdict(passed=score >= pass_threshold, score=score, rewards=rewards)


def _is_finite(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the range of floats
        return False


def _invalid(detail: str) -> Verdict:
    return Verdict(problem=Cause.REWARD_INVALID, detail=detail)
