"""What to publish as guarantee and kill threshold of each task, from what its trials needed.

The methods are those of `statistics.thresholds`; docs/calibration.md says what every figure means.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.statistics.intervals import Interval, rate
from pytest_infranoise.statistics.thresholds import (
    Evidence,
    Need,
    Needs,
    NeedStatus,
    covering_threshold,
    mean_rate_upper,
    typical_threshold,
)
from pytest_infranoise.units import MIB

SIZES: tuple[int, ...] = tuple(step * 2**power * MIB for power in range(3, 22) for step in (2, 3))
"""The sizes that are proposed: powers of two from 16M, and the steps halfway (24M, 48M, ...)."""

_ORDER = (NeedStatus.SHOWN, NeedStatus.PROVISIONAL, NeedStatus.AT_LEAST, NeedStatus.UNKNOWN)
_KNOWN = (NeedStatus.SHOWN, NeedStatus.PROVISIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """The reader's choices.

    Attributes:
        kill_rate: The largest rate of kills per trial that a value may be shown to have.
        confidence: Of that bound, for each task and agent.
        lower: Whether values below the declared ones are proposed too.

    Raises:
        UsageError: a number is out of range.
    """

    kill_rate: float = 0.10
    confidence: float = 0.95
    lower: bool = False

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("kill rate", self.kill_rate, 0.0, 0.5),
            ("confidence", self.confidence, 0.5, 1.0),
        ):
            if not low < value < high:
                raise UsageError(f"{name}: {value:g} must lie between {low:g} and {high:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one trial used. A limit or size of None is uncapped or unknown.

    `killed` is True where the trial's own threshold, or somebody else before its need could be
    seen, killed something; None where nobody could count. `cut_short` says that the infrastructure
    failed otherwise, so that the trial tells nothing of its need. `throttled_out` says that it ran
    into its deadline with its CPU throttled.
    """

    memory_limit_bytes: int | None
    memory_peak_bytes: int | None
    working_set_bytes: int | None
    killed: bool | None
    by_stranger: bool = False
    cut_short: bool = False
    cpu_limit_cores: float | None = None
    throttled_out: bool = False

    @property
    def is_judged(self) -> bool:
        """Whether it tells anything of the memory that it needed."""
        return not self.cut_short and self.killed is not None


@dataclass(frozen=True, slots=True)
class AgentTrials:
    """The trials of one agent by task; `is_reference` for the oracle and nop."""

    agent: str
    is_reference: bool
    trials: Mapping[str, Sequence[Usage]]


@dataclass(frozen=True, slots=True)
class AgentNeed:
    """What one task needs with one agent; sizes in bytes, CPU in cores.

    `peak` is the largest of trials that lived, `working_set` the largest that one of them held
    when a phase had ended; `kills` are trials killed by threshold (None is from outside).
    """

    agent: str
    n_trials: int
    n_judged: int
    need: Need
    guarantee: int | None
    peak: int | None
    working_set: int | None
    kills: Mapping[int | None, int]
    cpu: Need


@dataclass(frozen=True, slots=True)
class TaskProposal:
    """The values to publish for one task: those that hold for every agent.

    `limit` and `guarantee` are None where the answer is not known; then `above` is the highest
    threshold that is known to be too low. `cpu_limit_cores` is None where CPU needs no change or
    nothing is known. `kept` says that the declared limit stands although less was needed.
    """

    task: str
    status: NeedStatus
    guarantee: int | None
    limit: int | None
    above: int | None
    kept: bool
    by_reference: bool
    cpu_status: NeedStatus
    cpu_limit_cores: float | None
    agents: tuple[AgentNeed, ...]

    @property
    def upper(self) -> float | None:
        """The bound on the rate of kills per trial, of the agent for which it is highest."""
        if self.limit is None:
            return None
        return max(item.need.evidence.upper for item in self.agents if item.need.evidence)


@dataclass(frozen=True, slots=True)
class ExpectedRate:
    """The infra error rate to expect at the proposed values: at worst `mean`, with its interval.

    `kills` is the part of kills at the threshold, `other` that of other infrastructure errors,
    which no threshold changes. Both are means over `n_tasks` tasks.
    """

    n_tasks: int
    kills: float
    other: float
    interval: Interval

    @property
    def mean(self) -> float:
        """Both parts together."""
        return min(1.0, self.kills + self.other)


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """One agent over all tasks; `expected` is None where no task's values are known."""

    agent: str
    n_trials: int
    statuses: Mapping[NeedStatus, int]
    expected: ExpectedRate | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The answer for a whole benchmark; `references` are reference solutions that ran too."""

    settings: CalibrationSettings
    tasks: tuple[TaskProposal, ...]
    agents: tuple[AgentSummary, ...]
    references: tuple[str, ...]


def calibrate(
    entries: Sequence[AgentTrials],
    declared: Mapping[str, ResourceSpec],
    settings: CalibrationSettings,
) -> Calibration:
    """Return what to publish for each task of `declared`.

    Args:
        entries: One per agent; reference solutions only raise what agents need.
        declared: What each task declares now.
        settings: The reader's choices.

    Raises:
        UsageError: there is no agent but reference solutions.
    """
    agents = [entry for entry in entries if not entry.is_reference]
    references = [entry for entry in entries if entry.is_reference]
    if not agents:
        raise UsageError(
            "calibrate: only reference solutions ran (oracle or nop), and what they need says "
            "nothing of an agent; run one with --infra-agent and give its study"
        )
    tasks = tuple(
        _proposal(name, spec, agents, references, settings) for name, spec in declared.items()
    )
    return Calibration(
        settings,
        tasks,
        tuple(_summary(entry, tasks, settings) for entry in agents),
        tuple(entry.agent for entry in references),
    )


def _proposal(
    name: str,
    spec: ResourceSpec,
    agents: Sequence[AgentTrials],
    references: Sequence[AgentTrials],
    settings: CalibrationSettings,
) -> TaskProposal:
    needs = tuple(_agent_need(entry, name, settings) for entry in agents)
    status = max((item.need.status for item in needs), key=_ORDER.index)
    floors = [item.need.above for item in needs if item.need.above is not None]
    above = int(max(floors)) if floors else None
    cpu_status, cores = _cpu(needs, spec)
    if status not in _KNOWN:
        return TaskProposal(name, status, None, None, above, False, False, cpu_status, cores, needs)
    measured = max(int(item.need.threshold or 0) for item in needs)
    reference = _reference_limit(references, name)
    needed = max(measured, reference)
    kept = not settings.lower and spec.memory_limit_bytes >= needed
    limit = spec.memory_limit_bytes if kept else needed
    guarantee = max(item.guarantee or 0 for item in needs)
    if not settings.lower:
        guarantee = max(guarantee, spec.memory_guarantee_bytes)
    return TaskProposal(
        task=name,
        status=status,
        guarantee=min(guarantee, limit),
        limit=limit,
        above=above,
        kept=kept and needed < limit,
        by_reference=reference > measured and not kept,
        cpu_status=cpu_status,
        cpu_limit_cores=cores,
        agents=needs,
    )


def _agent_need(entry: AgentTrials, task: str, settings: CalibrationSettings) -> AgentNeed:
    trials = entry.trials.get(task, ())
    judged = [trial for trial in trials if trial.is_judged]
    lived = [trial for trial in judged if not trial.killed]
    needs = _memory_needs(judged)
    need = covering_threshold(needs, SIZES, rate=settings.kill_rate, confidence=settings.confidence)
    kills: dict[int | None, int] = {}
    for trial in judged:
        if trial.killed:
            limit = None if trial.by_stranger else trial.memory_limit_bytes
            kills[limit] = kills.get(limit, 0) + 1
    held = max((trial.working_set_bytes or 0 for trial in lived), default=0)
    return AgentNeed(
        agent=entry.agent,
        n_trials=len(trials),
        n_judged=len(judged),
        need=need,
        guarantee=_guarantee(needs, need, held, settings),
        peak=max((trial.memory_peak_bytes or 0 for trial in lived), default=0) or None,
        working_set=held or None,
        kills=kills,
        cpu=_cpu_need(trials, settings),
    )


def _memory_needs(judged: Sequence[Usage]) -> Needs:
    limits = [
        math.inf if trial.memory_limit_bytes is None or trial.by_stranger
        else float(trial.memory_limit_bytes)
        for trial in judged
    ]  # fmt: skip
    peaks = [
        math.inf if trial.memory_peak_bytes is None else float(trial.memory_peak_bytes)
        for trial in judged
    ]
    return Needs(
        np.array(limits, dtype=float),
        np.minimum(np.array(peaks, dtype=float), np.array(limits, dtype=float)),
        np.array([bool(trial.killed) for trial in judged], dtype=bool),
    )


def _guarantee(needs: Needs, need: Need, held: int, settings: CalibrationSettings) -> int | None:
    """Return what at least half of the trials fit, and never less than what was held for long."""
    if need.threshold is None:
        return None
    typical = typical_threshold(needs, SIZES, most=need.threshold, confidence=settings.confidence)
    return int(min(need.threshold, max(typical, rounded_up(held))))


def rounded_up(size_bytes: float) -> int:
    """Return the smallest of `SIZES` that is not below a size."""
    return next((step for step in SIZES if step >= size_bytes), SIZES[-1])


def _reference_limit(references: Sequence[AgentTrials], task: str) -> int:
    """Return what the reference solution needed at most, rounded up: it must fit too."""
    judged = [
        trial for entry in references for trial in entry.trials.get(task, ()) if trial.is_judged
    ]
    lived = [trial.memory_peak_bytes or 0 for trial in judged if not trial.killed]
    # Killed by its own threshold, it needs more than that; by a stranger, nobody knows what.
    killed = [
        trial.memory_limit_bytes + 1
        for trial in judged
        if trial.killed and not trial.by_stranger and trial.memory_limit_bytes is not None
    ]
    return max((rounded_up(size) for size in (*lived, *killed)), default=0)


def _cpu_need(trials: Sequence[Usage], settings: CalibrationSettings) -> Need:
    """Return the smallest CPU limit that ran without a throttled deadline.

    CPU limits slow a trial down and show no peak, so only limits that ran can be judged.
    """
    judged = [
        trial
        for trial in trials
        if trial.is_judged and not (trial.killed and not trial.throttled_out)
    ]
    limits = [
        math.inf if trial.cpu_limit_cores is None else trial.cpu_limit_cores for trial in judged
    ]
    needs = Needs(
        np.array(limits, dtype=float),
        np.full(len(limits), np.inf),
        np.array([trial.throttled_out for trial in judged], dtype=bool),
    )
    steps = sorted({limit for limit in limits if math.isfinite(limit)})
    return covering_threshold(needs, steps, rate=settings.kill_rate, confidence=settings.confidence)


def _cpu(needs: Sequence[AgentNeed], spec: ResourceSpec) -> tuple[NeedStatus, float | None]:
    """Return a CPU limit to publish where the declared one is known to be too low."""
    if spec.cpu_limit_cores is None:
        return NeedStatus.UNKNOWN, None
    declared = spec.cpu_limit_cores
    # A limit that the declared one exceeds, or equals, asks for no change, however it is known.
    short = [
        item.cpu for item in needs if item.cpu.above is not None and item.cpu.above >= declared
    ]
    if not short:
        return NeedStatus.UNKNOWN, None
    status = max((item.status for item in short), key=_ORDER.index)
    if status not in _KNOWN:
        return status, None
    return status, round(max(item.threshold or 0.0 for item in short), 3)


def _summary(
    entry: AgentTrials, tasks: Sequence[TaskProposal], settings: CalibrationSettings
) -> AgentSummary:
    own = [(task, need) for task in tasks for need in task.agents if need.agent == entry.agent]
    statuses = {status: sum(need.need.status is status for _, need in own) for status in _ORDER}
    settled = [task.task for task, _ in own if task.limit is not None]
    evidence = [need.need.evidence for task, need in own if task.limit is not None]
    return AgentSummary(
        entry.agent,
        sum(need.n_trials for _, need in own),
        statuses,
        _expected([item for item in evidence if item], entry, settled, settings),
    )


def _expected(
    evidence: Sequence[Evidence],
    entry: AgentTrials,
    tasks: Sequence[str],
    settings: CalibrationSettings,
) -> ExpectedRate | None:
    if not evidence:
        return None
    trials = [entry.trials[name] for name in tasks]
    other = rate(
        np.array([sum(trial.cut_short for trial in own) for own in trials], dtype=np.int64),
        np.array([len(own) for own in trials], dtype=np.int64),
    )
    assert other is not None  # each of these tasks has trials
    # Each part's upper end misses in half of the error, so their sum misses in all of it at most.
    upper = mean_rate_upper(evidence, (1 + settings.confidence) / 2) + other.ci95[1]
    return ExpectedRate(
        n_tasks=len(evidence),
        kills=float(np.mean([item.expected for item in evidence])),
        other=other.macro,
        interval=(other.ci95[0], min(1.0, upper)),
    )
