"""What the readers of other tools' results hand over, whatever the tool."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pytest_infranoise.model.outcome import Cause, Ending, Outcome, Phase
from pytest_infranoise.model.trial import PhaseRecord
from pytest_infranoise.model.usage import Usage


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a word of another tool says of a trial that did not pass.

    `outcome` None is no trial: somebody stopped it, as an interrupted trial here has no record.
    """

    outcome: Outcome | None
    cause: Cause | None = None


NOT_MEASURED = Meaning(None)
FAILED = Meaning(Outcome.FAILED)
TIMEOUT = Meaning(Outcome.TIMEOUT)


def infra(cause: Cause) -> Meaning:
    """Return what an error of the infrastructure means."""
    return Meaning(Outcome.INFRA_ERROR, cause)


UNKNOWN_WORD = infra(Cause.HARNESS)
"""A word that the table does not know: an error of the infrastructure, named by its detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrial:
    """One trial as far as another tool's files tell it; what they do not hold is None.

    `content` identifies what the task was (a check sum), and `usage` is what the agent said that it
    has used, where the files say it.
    """

    task: str
    outcome: Outcome
    cause: Cause | None = None
    detail: str | None = None
    score: float | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    phases: tuple[PhaseRecord, ...] = ()
    content: str | None = None
    usage: Usage | None = None

    @property
    def wall_seconds(self) -> float | None:
        """How long it took, where both ends are known."""
        return seconds_between(self.started_at, self.ended_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """One job, report or run of another tool: every trial of one parameter set.

    `identity` tells whether two runs are the same: a first line, then the id of each trial that has
    one, so that a run that went on is known again. `left_out` counts what is no trial, by reason;
    `facts` say how it was run, as far as the files know; `notes` are for the report.
    """

    kind: str
    name: str
    identity: str
    trials: Sequence[ImportedTrial]
    agent: Mapping[str, str | None]
    concurrency: int | None = None
    pass_threshold: float = 1.0
    left_out: Counter[str] = field(default_factory=Counter)
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def start_order(trial: ImportedTrial) -> tuple[bool, float]:
    """Return the sorting key of trials by their start, those without one last."""
    start = trial.started_at
    return start is None, 0.0 if start is None else start.timestamp()


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from one moment to another; None if either is unknown or they cross."""
    if start is None or end is None or end < start:
        return None
    return (end - start).total_seconds()


def phase_record(
    phase: Phase, ending: Ending, start: datetime | None, end: datetime | None
) -> tuple[PhaseRecord, ...]:
    """Return the record of a phase whose two ends are known, else none."""
    seconds = seconds_between(start, end)
    if start is None or seconds is None:
        return ()
    return (PhaseRecord(phase.value, ending.value, start.isoformat(), seconds),)
