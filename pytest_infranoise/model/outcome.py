"""From evidence to outcome: the one place that decides what a trial was.

The precedence is that of docs/measurement.md ("What a trial's outcome is"). Everything here is
pure, so that a table of cases can test it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Self

SIGKILL_EXIT = 137

Victim = Literal["step", "child", "all"]
"""Who was killed: a step's own command, a process that it had started, or everything."""


class Outcome(StrEnum):
    """What a trial was; every trial has exactly one."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OOM = "oom"
    INFRA_ERROR = "infra_error"


class Cause(StrEnum):
    """Why a trial has its outcome; the first group belongs to `oom`, the rest to `infra_error`."""

    ENDED_PHASE = "ended_phase"
    VERIFIER = "verifier"
    SURVIVED_THEN_FAILED = "survived_then_failed"

    HOST_MEMORY = "host_memory"
    UNATTRIBUTED_KILL = "unattributed_kill"
    IMAGE = "image"
    SANDBOX_START = "sandbox_start"
    SANDBOX_LOST = "sandbox_lost"
    ENGINE = "engine"
    HARNESS = "harness"
    WORKER_LOST = "worker_lost"
    VERIFIER_TIMEOUT = "verifier_timeout"
    VERIFIER_BOOTSTRAP = "verifier_bootstrap"
    VERIFIER_MEMORY = "verifier_memory"
    HELPER_LOST = "helper_lost"
    REWARD_MISSING = "reward_missing"
    REWARD_INVALID = "reward_invalid"

    MODEL_API = "model_api"
    """The model's provider refused to work: the trial was not measured and is in no rate."""
    ENGINE_AWAY = "engine_away"
    """The engine was found not to answer: the trial was not measured and is in no rate."""

    HOST_DISK = "host_disk"
    """The host's disk was full, and not by what the trial itself had written."""


UNMEASURED = frozenset({Cause.MODEL_API, Cause.ENGINE_AWAY})
"""What all parameter sets have in common, so that such an attempt says nothing about one."""


class Phase(StrEnum):
    """The parts of a trial's life, in order."""

    SETUP = "setup"
    AGENT = "agent"
    VERIFY = "verify"
    TEARDOWN = "teardown"


class Ending(StrEnum):
    """What ended a phase."""

    EXIT = "exit"  # its command returned, whatever the exit code
    DEADLINE = "deadline"  # its time was up and we killed it
    OOM_POLICY = "oom_policy"  # a kill at the threshold, and the policy ends the trial there
    LOST = "lost"  # the sandbox vanished under it
    ERROR = "error"  # the engine or this harness failed


@dataclass(frozen=True, slots=True)
class HelperState:
    """What is known of a helper service: the container beside the one that the agent works in.

    Its limits are its own in every parameter set; None is no limit, and unknown for the rest.
    `lost` says in words how it came to an end that nobody wanted.
    """

    memory_limit_bytes: int | None = None
    memory_peak_bytes: int | None = None
    oom_kills: int | None = None
    exit_code: int | None = None
    lost: str | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """One reading of a sandbox's kernel counters; None means not readable here.

    `limit_reached` says whether the sandbox's own kill threshold was reached since it was opened:
    v1, the peak stands at the limit; v2, the cgroup's own `oom` or `max` event counter is above
    zero. It is False in an uncapped set. Peaks and sums are cumulative over the sandbox's life.
    `took_holder` says whether a kill ended the sandbox itself, with the process that holds it open.
    `source` names the files or the hint that the kill count was read from.

    `memory_held_bytes` is the charge without any page cache: what no reclaim can free without swap.
    `*_some_pressure_seconds` is how long at least one process waited for the resource, `_full_` how
    long all did at once (pressure stall information). `host_*` are of the engine's whole host since
    it was booted. `overrun_seconds` is how long a watch saw the threshold passed. `helpers` are the
    helper services by name; their numbers are in none of the others.
    """

    oom_kills: int | None = None
    took_holder: bool | None = None
    limit_reached: bool | None = None
    limit_hits: int | None = None
    memory_peak_bytes: int | None = None
    memory_working_set_bytes: int | None = None
    memory_held_bytes: int | None = None
    cpu_seconds: float | None = None
    cpu_periods: int | None = None
    throttled_periods: int | None = None
    throttled_seconds: float | None = None
    memory_some_pressure_seconds: float | None = None
    memory_full_pressure_seconds: float | None = None
    cpu_some_pressure_seconds: float | None = None
    host_memory_some_pressure_seconds: float | None = None
    host_memory_full_pressure_seconds: float | None = None
    host_cpu_some_pressure_seconds: float | None = None
    host_cpu_busy_seconds: float | None = None
    host_cpu_total_seconds: float | None = None
    overrun_seconds: float | None = None
    source: str | None = None
    helpers: Mapping[str, HelperState] = field(default_factory=dict)

    @property
    def helper_lost(self) -> str | None:
        """What became of the first helper service that was lost, None for none."""
        lost = (f"service {name} {item.lost}" for name, item in self.helpers.items() if item.lost)
        return next(lost, None)


def increase(before: int | None, after: int | None) -> int | None:
    """Return how much a counter rose; unknown if either reading is."""
    return None if before is None or after is None else max(0, after - before)


@dataclass(frozen=True, slots=True)
class PhaseEvidence:
    """The facts about one phase of a trial.

    `oom_kills` is the increase of the kernel's counter over the phase, `oom_kills_source` where it
    was read; `limit_reached` and `took_holder` are those of `Counters` at the phase's end.
    `api_error` is the agent's line that says that its model's provider refused to work.
    `in_verifier` says that it ran in the verifier's own sandbox, whose limit no parameter set
    scales; the counters are that sandbox's. `helper_lost` is `Counters.helper_lost` at its end.
    """

    phase: Phase
    ending: Ending
    exit_code: int | None = None
    oom_kills: int | None = None
    oom_kills_source: str | None = None
    took_holder: bool | None = None
    limit_reached: bool | None = None
    error_cause: Cause | None = None
    error: str | None = None
    api_error: str | None = None
    in_verifier: bool = False
    helper_lost: str | None = None

    @property
    def was_killed_by_kernel(self) -> bool:
        """Whether a kernel kill, not the agent itself, ended this phase.

        A sandbox that is lost after a kill was not lost by it, unless the kill took its holder.
        """
        if self.ending is Ending.OOM_POLICY:
            return True
        was_lost_by_it = self.ending is Ending.LOST and self.took_holder is True
        return bool(self.oom_kills) and (was_lost_by_it or self.exit_code == SIGKILL_EXIT)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verification said: `passed`, or the `problem` that left it without an answer.

    `detail` is one line on what is behind a problem or a failure. `rewards` are the named numbers
    that the score was made of. `network_failed` says that `detail` proves that the network failed
    the verification's own bootstrap. `by_agent` says that the agent itself took away what the tests
    run with: it has not passed, whatever else became of them.
    """

    passed: bool = False
    score: float | None = None
    problem: Cause | None = None
    detail: str | None = None
    network_failed: bool = False
    rewards: Mapping[str, float] = field(default_factory=dict, compare=False)
    by_agent: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """All facts that decide a trial's outcome; a phase that never began is absent.

    A task of several steps has its phases in order, one of each kind per step. `host_disk` says in
    words that others filled the host's disk and that a program of the trial met it.
    """

    phases: Sequence[PhaseEvidence]
    verdict: Verdict | None = None
    memory_is_capped: bool = True
    host_disk: str | None = None

    def of(self, *kinds: Phase) -> Iterator[PhaseEvidence]:
        """Yield the phases of these kinds, in the order in which they ran."""
        return (item for item in self.phases if item.phase in kinds)


@dataclass(frozen=True, slots=True)
class Classification:
    """An outcome with its cause and one line of detail for people."""

    outcome: Outcome
    cause: Cause | None = None
    detail: str | None = None

    @classmethod
    def infra(cls, cause: Cause, detail: str | None = None) -> Self:
        """An error of the infrastructure."""
        return cls(Outcome.INFRA_ERROR, cause, detail)


def classify(evidence: Evidence) -> Classification:
    """Return what the trial was; the first rule that applies decides."""
    verdict = evidence.verdict
    if verdict is not None and verdict.passed:
        return Classification(Outcome.PASSED)
    for rule in (
        _provider_failed,
        _foreign_kill,
        _helper_lost,
        _agent_ended_early,
        _verifier_killed,
        _disk_filled,
        _model_unavailable,
        _verifier_failed,
        _kill_survived,
    ):
        found = rule(evidence)
        if found is not None:
            return found
    return Classification(Outcome.FAILED, None, None if verdict is None else verdict.detail)


def _provider_failed(evidence: Evidence) -> Classification | None:
    for item in evidence.phases:
        if item.phase is Phase.TEARDOWN or _was_own_end(item, evidence):
            continue
        if item.ending is Ending.LOST and not (item.oom_kills and item.took_holder):
            return Classification.infra(item.error_cause or Cause.SANDBOX_LOST, item.error)
        if item.ending is Ending.ERROR:
            return Classification.infra(item.error_cause or Cause.HARNESS, item.error)
    return None


def _foreign_kill(evidence: Evidence) -> Classification | None:
    """A kernel kill that our own threshold cannot have caused."""
    for item in evidence.phases:
        if not item.oom_kills or _own_kill(item, evidence):
            continue
        if _is_capped(item, evidence) and item.limit_reached is None:
            detail = f"killed in {item.phase}; whose limit was reached is unknown"
            return Classification.infra(Cause.UNATTRIBUTED_KILL, detail)
        detail = f"killed in {item.phase} by the kernel, but not at its own kill threshold"
        return Classification.infra(Cause.HOST_MEMORY, detail)
    return None


def _own_kill(item: PhaseEvidence, evidence: Evidence) -> bool:
    killed = bool(item.oom_kills) or item.ending is Ending.OOM_POLICY
    return killed and _is_capped(item, evidence) and item.limit_reached is True


def _is_capped(item: PhaseEvidence, evidence: Evidence) -> bool:
    """Whether the sandbox of a phase had a kill threshold; a verifier's own one always has."""
    return item.in_verifier or evidence.memory_is_capped


def _was_own_end(item: PhaseEvidence, evidence: Evidence) -> bool:
    """Whether our own threshold, not the provider, ended the phase.

    A step of the harness itself (one that puts the tests in, say) may be what was killed, or the
    service that a healthcheck waited for.
    """
    by_harness = item.error_cause in (Cause.HARNESS, Cause.SANDBOX_START)
    return _own_kill(item, evidence) and (item.was_killed_by_kernel or by_harness)


def _agent_ended_early(evidence: Evidence) -> Classification | None:
    for item in evidence.of(Phase.SETUP, Phase.AGENT):
        if item.was_killed_by_kernel:
            return Classification(Outcome.OOM, Cause.ENDED_PHASE, f"killed in {item.phase}")
        if item.ending is Ending.DEADLINE:
            kills = f" after {item.oom_kills} kill(s)" if item.oom_kills else ""
            return Classification(Outcome.TIMEOUT, None, f"deadline in {item.phase}{kills}")
    return None


def _helper_lost(evidence: Evidence) -> Classification | None:
    """A helper service came to its end: its limits are no part of the treatment.

    Where the agent's own kill threshold ended a phase, the service may have died of that.
    """
    for item in evidence.phases:
        if item.was_killed_by_kernel and _own_kill(item, evidence):
            return None
        if item.helper_lost is not None:
            return Classification.infra(Cause.HELPER_LOST, item.helper_lost)
    return None


def _verifier_killed(evidence: Evidence) -> Classification | None:
    """A kill while the tests ran; a harmless one yields to proof that the network failed."""
    killed = [item for item in evidence.of(Phase.VERIFY) if item.oom_kills]
    verdict = evidence.verdict
    if verdict is not None and verdict.network_failed:
        killed = [item for item in killed if item.was_killed_by_kernel]
    has_proof = verdict is not None and verdict.problem is Cause.VERIFIER_BOOTSTRAP
    beside = f"; it printed: {verdict.detail}" if verdict is not None and has_proof else ""
    if any(not item.in_verifier for item in killed):
        return Classification(Outcome.OOM, Cause.VERIFIER, f"killed during verification{beside}")
    if killed:
        detail = f"killed in the verifier's own sandbox, at its own limit{beside}"
        return Classification.infra(Cause.VERIFIER_MEMORY, detail)
    return None


def _disk_filled(evidence: Evidence) -> Classification | None:
    """A full disk of the host that is not the trial's own deed."""
    verdict = evidence.verdict
    if evidence.host_disk is None or (verdict is not None and verdict.by_agent):
        return None
    return Classification.infra(Cause.HOST_DISK, _with_kills(evidence.host_disk, evidence))


def _model_unavailable(evidence: Evidence) -> Classification | None:
    """An agent that its model's provider left alone; after a kill, the kill is the reason."""
    if any(item.oom_kills for item in evidence.of(Phase.SETUP, Phase.AGENT)):
        return None
    for item in evidence.of(Phase.AGENT):
        if item.api_error is not None:
            return Classification.infra(Cause.MODEL_API, item.api_error)
    return None


def _verifier_failed(evidence: Evidence) -> Classification | None:
    verdict = evidence.verdict
    if verdict is not None and verdict.by_agent:
        return None
    if any(item.ending is Ending.DEADLINE for item in evidence.of(Phase.VERIFY)):
        words = "the verifier ran into its deadline"
        if verdict is not None and verdict.network_failed:
            words += f"; it printed: {verdict.detail}"
        return Classification.infra(Cause.VERIFIER_TIMEOUT, words)
    if verdict is None or verdict.problem is None:
        return None
    return Classification.infra(verdict.problem, _with_kills(verdict.detail, evidence))


def _with_kills(detail: str | None, evidence: Evidence) -> str | None:
    """Add to what is behind a problem the kills that ended no phase."""
    kills = [f"{item.oom_kills} in {item.phase}" for item in evidence.phases if item.oom_kills]
    beside = f"kill(s) that ended no phase: {', '.join(kills)}" if kills else None
    return "; ".join(words for words in (detail, beside) if words) or None


def _kill_survived(evidence: Evidence) -> Classification | None:
    for item in evidence.of(Phase.SETUP, Phase.AGENT):
        if item.oom_kills:
            detail = f"{item.oom_kills} kill(s) in {item.phase}, the agent went on"
            return Classification(Outcome.OOM, Cause.SURVIVED_THEN_FAILED, detail)
    return None
