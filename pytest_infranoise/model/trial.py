"""One trial: what is planned, and what is recorded of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.resources import Allocation, ParameterSet
from pytest_infranoise.model.usage import Usage

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """task x parameter set x sample, with its place in the study's order.

    `block` numbers the group that holds every parameter set of one task and sample; `position` is
    the place in the whole order. `seed` is the same in every parameter set of a task and sample.
    """

    study: str
    task: str
    parameter_set: ParameterSet
    sample: int
    block: int
    position: int
    seed: int
    requested: Allocation
    allocation: Allocation
    agent_timeout_seconds: float | None
    attempt: int = 1

    @property
    def id(self) -> str:
        """The last part of the item id: parameter set and sample, `3x-s1`."""
        return trial_id(self.parameter_set.id, self.sample)


def trial_id(parameter_set: str, sample: int) -> str:
    """Return the part of an item id that names parameter set and sample."""
    return f"{parameter_set}-s{sample}"


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """What is recorded of one phase; see docs/measurement.md for each number.

    `victim` is who was killed: `step`, `child` or `all`; None without a kill, or if unknown.
    `output` is the tail of what the phase printed, decoded with replacement;
    `output_truncated` says whether anything before it was dropped. `step` names the step that the
    phase belongs to, in a task of several. `sandbox` is `verifier` where the tests had a sandbox of
    their own: the numbers are that one's.
    """

    phase: str
    ending: str
    started_at: str
    wall_seconds: float
    exit_code: int | None = None
    oom_kills: int | None = None
    oom_kills_source: str | None = None
    limit_reached: bool | None = None
    limit_hits: int | None = None
    memory_peak_bytes: int | None = None
    memory_working_set_bytes: int | None = None
    cpu_seconds: float | None = None
    cpu_periods: int | None = None
    throttled_periods: int | None = None
    throttled_seconds: float | None = None
    victim: str | None = None
    overrun_seconds: float | None = None
    memory_some_pressure_seconds: float | None = None
    memory_full_pressure_seconds: float | None = None
    cpu_some_pressure_seconds: float | None = None
    host_memory_some_pressure_seconds: float | None = None
    host_memory_full_pressure_seconds: float | None = None
    host_cpu_some_pressure_seconds: float | None = None
    host_cpu_busy_share: float | None = None
    output: str = ""
    output_truncated: bool = False
    error: str | None = None
    step: str | None = None
    sandbox: str = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One line of `trials.jsonl`. Bytes, cores and seconds; None is unknown or uncapped.

    `*_guarantee_*` and `*_limit_*` are what the trial was given after the engine's own bounds;
    `requested` holds what the parameter set asked for and `effective` what was read back from the
    kernel or engine, each with its source. `trials_beside` is how many other guarantees were open
    on the host when this one was admitted. Place, seed, time and worker are None where the trial is
    known by its outcome alone (imported counts). `usage` is what the agent itself says that it has
    used, None where it says nothing. `verifier` is what is known of the verifier's own sandbox
    (image, limits, peak, kills), `helpers` of each helper service by name; both are empty for none.
    """

    study: str
    task: str
    parameter_set: str
    sample: int
    attempt: int
    block: int | None
    position: int | None
    seed: int | None
    outcome: Outcome
    cause: Cause | None
    detail: str | None
    started_at: str | None
    worker: str | None
    score: float | None = None
    oom_kills: int | None = None
    memory_guarantee_bytes: int | None = None
    memory_limit_bytes: int | None = None
    cpu_guarantee_cores: float | None = None
    cpu_limit_cores: float | None = None
    memory_peak_bytes: int | None = None
    memory_working_set_bytes: int | None = None
    cpu_seconds: float | None = None
    cpu_periods: int | None = None
    throttled_periods: int | None = None
    overrun_seconds: float | None = None
    wall_seconds: float | None = None
    admission_wait_seconds: float | None = None
    trials_beside: int | None = None
    host_memory_available_bytes: int | None = None
    visible_cpus: int | None = None
    visible_memory_bytes: int | None = None
    image_digest: str | None = None
    usage: Usage | None = None
    requested: Mapping[str, Any] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)
    verifier: Mapping[str, Any] = field(default_factory=dict)
    helpers: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    phases: tuple[PhaseRecord, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What makes a record unique within a study."""
        return (self.task, self.parameter_set, self.sample, self.attempt)

    def to_json(self) -> dict[str, Any]:
        """Return exact builtins only, as they cross processes and stand in the journal."""
        values = asdict(self)
        values["outcome"] = self.outcome.value
        values["cause"] = None if self.cause is None else self.cause.value
        values["notes"] = list(self.notes)
        values["phases"] = [asdict(phase) for phase in self.phases]
        return values
