"""Verification as the task format defines it: tests in, test.sh run, reward read."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_infranoise.agents.files import merged, public_folder, text_of
from pytest_infranoise.agents.shell import script_command
from pytest_infranoise.backends.base import Sandbox, StepResult
from pytest_infranoise.model.outcome import Cause, Ending, Verdict
from pytest_infranoise.model.task import Grader
from pytest_infranoise.trial.bootstrap import Proof, asks_for_ctrf, proof_of_failed_bootstrap
from pytest_infranoise.trial.folders import VERIFIER_LOGS, fresh_logs
from pytest_infranoise.trial.network import fetches

REWARD_JSON = "reward.json"
REWARD_TEXT = "reward.txt"
CTRF = "ctrf.json"
USERS = "/etc/passwd"
NOT_EXECUTABLE = 126

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
    def text(self) -> str | None:
        """The script's text, None where only the image has it."""
        return text_of(self.script, self.tests, self.files)

    @property
    def asks_for_ctrf(self) -> bool:
        """Whether the script tells its runner to write a `ctrf.json`."""
        return asks_for_ctrf(self.text or "")

    @property
    def fetches(self) -> bool:
        """Whether one of the shell scripts can use the network; so too where none can be read."""
        texts = [
            text
            for name in self._scripts()
            if (text := text_of(name, self.tests, self.files)) is not None
        ]
        return not texts or any(map(fetches, texts))

    def _scripts(self) -> Iterator[str]:
        yield self.script
        yield from (name for name in self.files if name.endswith(".sh"))
        for folder in self.tests:
            yield from (str(path.relative_to(folder)) for path in folder.rglob("*.sh"))

    @property
    def output_bytes(self) -> int:
        """How much of the tests' output is of use."""
        return MAX_SEARCHED_OUTPUT_BYTES if self.grader is None else MAX_GRADED_OUTPUT_BYTES

    def command(self, sandbox: Sandbox) -> list[str]:
        """Return what runs the script in /tests."""
        return script_command(sandbox, f"/tests/{self.script}", self.text)


def put_tests(sandbox: Sandbox, verification: Verification) -> None:
    """Lay the tests over what the image itself has at /tests.

    Nothing is left of what an agent put there, or of what could pass for a reward.
    """
    logs = fresh_logs(VERIFIER_LOGS)
    if verification.is_in_place:
        sandbox.place(logs)
        return
    with merged(verification.tests, verification.files) as folder:
        sandbox.place([*logs, public_folder("/tests", folder, verification.script)])


def run_tests(sandbox: Sandbox, verification: Verification) -> StepResult:
    """Run the script in /tests; its exit code means nothing, the reward file decides."""
    return sandbox.exec(
        verification.command(sandbox),
        timeout_seconds=verification.timeout_seconds,
        environment=verification.environment,
        workdir=verification.workdir,
        user=verification.user,
        tail_bytes=verification.output_bytes,
    )


def judge(
    sandbox: Sandbox, verification: Verification, result: StepResult, pass_threshold: float
) -> Verdict:
    """Read the reward and judge it; a 0 of tests that never ran is no judgement."""
    output = result.output
    if verification.grader is not None:
        proof = proof_of_failed_bootstrap(output, fetches=verification.fetches)
        verdict = verification.grader.grade(output, None if proof is None else proof.line)
        return _with_network(verdict, proof)
    most = {REWARD_JSON: MAX_REWARD_BYTES, REWARD_TEXT: MAX_REWARD_BYTES, CTRF: 1}
    left = sandbox.read_folder(VERIFIER_LOGS, most)
    verdict = read_verdict(left, pass_threshold)
    is_zero = verdict.score is not None and verdict.score <= 0 and not verdict.passed
    if not is_zero and verdict.problem is not Cause.REWARD_MISSING:
        return verdict
    proof = proof_of_failed_bootstrap(
        output,
        # A missing reward is an error already: here only a line can say more about it.
        asks_for_ctrf=is_zero and verification.asks_for_ctrf,
        has_ctrf=bool(left.get(CTRF)),  # an empty one was only made room for
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


def read_verdict(left: Mapping[str, bytes], pass_threshold: float) -> Verdict:
    """Judge what the tests left, `reward.json`, else `reward.txt`, against the threshold."""
    if REWARD_JSON in left:
        return parse_reward_json(left[REWARD_JSON], pass_threshold)
    if REWARD_TEXT in left:
        return parse_reward_text(left[REWARD_TEXT], pass_threshold)
    return Verdict(
        problem=Cause.REWARD_MISSING,
        detail="the tests left neither reward.json nor reward.txt in /logs/verifier",
    )


def blame(
    sandbox: Sandbox, verification: Verification, result: StepResult, verdict: Verdict
) -> Verdict:
    """Return the verdict on tests that gave no answer: no, where the agent took their means away.

    An agent with the rights for it can remove or replace the program that runs the tests; the task
    and the provider have done nothing wrong then.
    """
    gave_none = verdict.problem in (Cause.REWARD_MISSING, Cause.REWARD_INVALID)
    if verdict.passed or not (gave_none or result.ending is Ending.DEADLINE):
        return verdict
    means = [verification.command(sandbox)[0]]
    if verification.user is not None and result.exit_code == NOT_EXECUTABLE:
        means.append(USERS)
    path = sandbox.altered(means)
    if path is None:
        return verdict
    return Verdict(detail=f"the tests could not run: the agent changed {path}", by_agent=True)


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
