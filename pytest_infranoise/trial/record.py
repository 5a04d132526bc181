"""What is kept of a trial: its plan and what was observed of it, as one record."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_infranoise.admission import Grant
from pytest_infranoise.backends.base import EffectiveLimits, Seen
from pytest_infranoise.model.outcome import Classification, Counters, Verdict
from pytest_infranoise.model.trial import PhaseRecord, TrialPlan, TrialRecord
from pytest_infranoise.model.usage import Usage, together
from pytest_infranoise.trial.phases import FRESH


@dataclass(slots=True)
class Observed:
    """What a trial has shown so far; what never came to be read is unknown.

    `counters` is the last reading of the sandbox's counters. `usages` has what each run of the
    agent said that it has used: one, or one per step.
    """

    counters: Counters = FRESH
    effective: EffectiveLimits | None = None
    grant: Grant | None = None
    seen: Seen = field(default_factory=Seen)
    started_at: str = ""
    wall_seconds: float | None = None
    verdict: Verdict | None = None
    usages: list[Usage | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verifier: Mapping[str, Any] = field(default_factory=dict)


def make_record(
    plan: TrialPlan,
    observed: Observed,
    phases: Sequence[PhaseRecord],
    judged: Classification,
    *,
    image_digest: str | None,
    worker: str,
    notes: Sequence[str],
) -> TrialRecord:
    """Return the record of a trial that has ended."""
    allocation, last, seen = plan.allocation, observed.counters, observed.seen
    grant, verdict = observed.grant, observed.verdict
    return TrialRecord(
        study=plan.study,
        task=plan.task,
        parameter_set=plan.parameter_set.id,
        sample=plan.sample,
        attempt=plan.attempt,
        block=plan.block,
        position=plan.position,
        outcome=judged.outcome,
        cause=judged.cause,
        detail=judged.detail,
        score=None if verdict is None else verdict.score,
        oom_kills=None if observed.effective is None else last.oom_kills,
        memory_guarantee_bytes=allocation.memory_guarantee_bytes,
        memory_limit_bytes=allocation.memory_limit_bytes,
        cpu_guarantee_cores=allocation.cpu_guarantee_cores,
        cpu_limit_cores=allocation.cpu_limit_cores,
        memory_peak_bytes=last.memory_peak_bytes,
        memory_working_set_bytes=last.memory_working_set_bytes,
        cpu_seconds=last.cpu_seconds,
        cpu_periods=last.cpu_periods,
        throttled_periods=last.throttled_periods,
        overrun_seconds=last.overrun_seconds,
        started_at=observed.started_at,
        wall_seconds=observed.wall_seconds,
        admission_wait_seconds=None if grant is None else grant.wait_seconds,
        trials_beside=None if grant is None else grant.trials_beside,
        host_memory_available_bytes=seen.memory_available_bytes,
        visible_cpus=seen.cpus,
        visible_memory_bytes=seen.memory_total_bytes,
        image_digest=image_digest,
        usage=together(observed.usages),
        worker=worker,
        seed=plan.seed,
        requested=_requested(plan),
        effective=limits_of(observed.effective),
        verifier=observed.verifier,
        helpers={name: asdict(item) for name, item in last.helpers.items()},
        notes=(*notes, *observed.notes),
        phases=tuple(phases),
    )


def _requested(plan: TrialPlan) -> dict[str, Any]:
    values = asdict(plan.requested)
    del values["notes"]
    values["agent_timeout_seconds"] = plan.agent_timeout_seconds
    return values


def limits_of(limits: EffectiveLimits | None) -> dict[str, Any]:
    """Return limits as they were read back, with their source, as a record keeps them."""
    return {} if limits is None else {**limits.values, "source": limits.source}
