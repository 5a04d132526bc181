"""A phase of a trial while it lasts, and what is kept of it."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from pytest_infranoise.backends.base import StepResult
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import (
    SIGKILL_EXIT,
    Cause,
    Counters,
    Ending,
    Phase,
    PhaseEvidence,
    Victim,
    increase,
)
from pytest_infranoise.model.trial import PhaseRecord

FRESH = Counters(oom_kills=0, limit_hits=0, cpu_seconds=0.0, cpu_periods=0, throttled_periods=0)
"""Where the counters of a new cgroup start."""


class PhaseRun:
    """A phase while it lasts: collects what happened, becomes evidence and record at its end."""

    output_limit_bytes = 16 * 1024

    def __init__(
        self,
        phase: Phase,
        before: Counters,
        step: str | None = None,
        *,
        in_verifier: bool = False,
    ) -> None:
        self.phase = phase
        self.step = step
        self.in_verifier = in_verifier
        self.before = before
        self.after = before
        self.started_at = utc_now()
        self.ending = Ending.EXIT
        self.exit_code: int | None = None
        self.wall_seconds: float | None = None
        self.output = ""
        self.output_truncated = False
        self.error: str | None = None
        self.error_cause: Cause | None = None
        self.victim: Victim | None = None
        self.api_error: str | None = None
        self._began = time.monotonic()

    def finish(self, result: StepResult) -> None:
        """Take over what became of the phase's main step."""
        self.ending = result.ending
        self.exit_code = result.exit_code
        self.wall_seconds = result.wall_seconds
        self.output = result.output
        self.output_truncated = result.output_truncated

    def fail(self, error: SandboxError) -> None:
        """Note that the provider, not a command, failed."""
        self.error = str(error)
        self.error_cause = Cause(error.cause)
        lost = self.error_cause is Cause.SANDBOX_LOST
        self.ending = Ending.LOST if lost else Ending.ERROR

    def end_by_policy(self, victim: Victim | None) -> None:
        """Note that a kill ended the trial in this phase."""
        self.ending = Ending.OOM_POLICY
        self.exit_code = None
        self.victim = victim

    def set_output(self, content: bytes) -> None:
        """Keep the end of a log file as the phase's output."""
        self.output_truncated = len(content) > self.output_limit_bytes
        self.output = content[-self.output_limit_bytes :].decode("utf-8", "replace")

    def close(self) -> None:
        """Stop the clock, unless a step's own time stands already."""
        if self.wall_seconds is None:
            self.wall_seconds = time.monotonic() - self._began

    @property
    def hints_at_kill(self) -> bool:
        """Whether something suggests a kill that the counter may not show yet."""
        return self.ending is not Ending.EXIT or self.exit_code not in (0, None)

    def evidence(self) -> PhaseEvidence:
        """Return the facts that decide the outcome."""
        return PhaseEvidence(
            phase=self.phase,
            ending=self.ending,
            exit_code=self.exit_code,
            oom_kills=increase(self.before.oom_kills, self.after.oom_kills),
            oom_kills_source=self.after.source,
            took_holder=self.after.took_holder,
            limit_reached=self.after.limit_reached,
            error_cause=self.error_cause,
            error=self.error,
            api_error=self.api_error,
            in_verifier=self.in_verifier,
            helper_lost=self.after.helper_lost,
        )

    def record(self) -> PhaseRecord:
        """Return what the journal keeps of the phase."""
        before, after = self.before, self.after
        return PhaseRecord(
            phase=self.phase.value,
            ending=self.ending.value,
            started_at=self.started_at,
            wall_seconds=self.wall_seconds or 0.0,
            exit_code=self.exit_code,
            oom_kills=increase(before.oom_kills, after.oom_kills),
            oom_kills_source=after.source,
            limit_reached=after.limit_reached,
            limit_hits=increase(before.limit_hits, after.limit_hits),
            memory_peak_bytes=after.memory_peak_bytes,
            memory_working_set_bytes=after.memory_working_set_bytes,
            cpu_seconds=_rise(before.cpu_seconds, after.cpu_seconds),
            cpu_periods=increase(before.cpu_periods, after.cpu_periods),
            throttled_periods=increase(before.throttled_periods, after.throttled_periods),
            throttled_seconds=_rise(before.throttled_seconds, after.throttled_seconds),
            victim=self._victim(),
            overrun_seconds=_growth(before.overrun_seconds, after.overrun_seconds),
            host_cpu_busy_share=_busy_share(before, after),
            **_pressures(before, after),
            output=self.output,
            output_truncated=self.output_truncated,
            error=self.error,
            step=self.step,
            sandbox="verifier" if self.in_verifier else "agent",
        )

    def _victim(self) -> Victim | None:
        """Tell the step's own command from its children by how it returned."""
        if not increase(self.before.oom_kills, self.after.oom_kills):
            return None
        if self.victim is not None or self.ending is not Ending.EXIT:
            return "all" if self.after.took_holder else self.victim
        if self.exit_code is None:
            return None
        return "step" if self.exit_code == SIGKILL_EXIT else "child"


def merge_setup(phases: Sequence[PhaseRun]) -> list[PhaseRun]:
    """Return the phases with consecutive parts of one phase joined."""
    merged: list[PhaseRun] = []
    for run in phases:
        last = merged[-1] if merged else None
        if last is not None and (last.phase, last.in_verifier) == (run.phase, run.in_verifier):
            first = merged[-1]
            run.before = first.before
            run.started_at = first.started_at
            run.wall_seconds = (run.wall_seconds or 0.0) + (first.wall_seconds or 0.0)
            merged[-1] = run
        else:
            merged.append(run)
    return merged


def utc_now() -> str:
    """Return the time as UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rise(before: float | None, after: float | None) -> float | None:
    """Return how much a sum grew; unknown if either reading is."""
    return None if before is None or after is None else max(0.0, after - before)


def _growth(before: float | None, after: float | None) -> float | None:
    """Return how much a sum grew that starts at 0 with the sandbox."""
    return None if after is None else _rise(before or 0.0, after)


def _pressures(before: Counters, after: Counters) -> dict[str, float | None]:
    """Return how much each of the pressures grew."""
    own = ("memory_some", "memory_full", "cpu_some")
    names = [f"{name}_pressure_seconds" for name in own]
    grown = {name: _growth(getattr(before, name), getattr(after, name)) for name in names}
    hosts = [f"host_{name}" for name in names]
    return grown | {name: _rise(getattr(before, name), getattr(after, name)) for name in hosts}


def _busy_share(before: Counters, after: Counters) -> float | None:
    """Return the share of the host's CPU time over the phase that was not idle."""
    total = _rise(before.host_cpu_total_seconds, after.host_cpu_total_seconds)
    busy = _rise(before.host_cpu_busy_seconds, after.host_cpu_busy_seconds)
    return None if not total or busy is None else min(1.0, busy / total)
