"""The parts of a written report: every figure computed, every unknown called so.

Rates and differences are proportions; texts may hold other people's names and output, and whoever
renders them escapes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.report.tables import Table
from pytest_infranoise.statistics.intervals import Interval

UNKNOWN = "unknown"

Facts = tuple[tuple[str, str], ...]
"""Labels with what is known of each."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate of one parameter set; `value` and `ci95` are None where nothing ran.

    `words` say both, `shown` the value alone.
    """

    label: str
    value: float | None
    ci95: Interval | None
    words: str
    shown: str
    is_control: bool


@dataclass(frozen=True, slots=True)
class RateChart:
    """One rate over the parameter sets; `is_ladder` where their order is one of growing limits."""

    title: str
    estimates: tuple[Estimate, ...]
    is_ladder: bool
    description: str


@dataclass(frozen=True, slots=True)
class Effect:
    """The lift of one set; None where the data give no such figure."""

    label: str
    difference: float | None
    ci90: Interval | None
    ci95: Interval | None
    words: str


@dataclass(frozen=True, slots=True)
class LiftChart:
    """Lift of every set against the baseline, beside the margin within which it does not matter.

    `note` says how to read it.
    """

    title: str
    baseline: str
    margin: float
    effects: tuple[Effect, ...]
    description: str
    note: str


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest memory peak of a task in one set, and how much of the kill threshold it is.

    `share` is between 0 and 1, None in an uncapped set or where either is unknown. `is_killed` says
    that the kernel killed at the threshold; a peak that page cache filled up is none.
    """

    words: str
    share: float | None
    is_killed: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One task in one parameter set; no `counts` where it never ran."""

    counts: tuple[tuple[Outcome, int], ...]
    peak: Peak | None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task in every parameter set."""

    task: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class TaskMap:
    """Task x set. `first` are shown at once, `others` on request; `left_out` is how many neither.

    `note` says what the rows are and in which order.
    """

    sets: tuple[str, ...]
    first: tuple[TaskRow, ...]
    others: tuple[TaskRow, ...]
    left_out: int
    note: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One parameter set in time: per slice of time the trials of each shown outcome."""

    label: str
    words: str
    slices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class DriftLine:
    """How a rate deviated, slice by slice of the study; in proportions."""

    label: str
    deviations: tuple[float, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """What ended when. `most` is the largest number of trials in one slice of one lane."""

    lanes: tuple[Lane, ...]
    most: int
    begin: str
    end: str
    note: str
    drift: tuple[DriftLine, ...]
    segments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrialNote:
    """A trial that a kill, a deadline or the infrastructure ended, with the end of its output.

    `task` is its task's name as the heading shows it.
    """

    heading: str
    task: str
    facts: str
    outputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report.

    `headline` and `answer` are the four lines threshold, score, noise, next, `verdict` what stands
    behind them, `gates` what became of each, `compared` what each set
    shows against the baseline, `moved` which tasks moved. `trials_left_out` is how many trials that
    were not simply passed or failed are not shown.
    """

    study: str
    headline: str
    answer: tuple[str, ...]
    what_ran: tuple[str, ...]
    verdict: tuple[str, ...]
    gates: tuple[str, ...]
    compared: tuple[str, ...]
    moved: tuple[str, ...]
    warnings: tuple[str, ...]
    sets: Table
    comparisons: Table | None
    success: RateChart | None
    infra_errors: RateChart | None
    lift: LiftChart | None
    tasks: TaskMap
    timeline: Timeline | None
    trials: tuple[TrialNote, ...]
    trials_left_out: int
    facts: Facts
    card: Facts
    methods: tuple[str, ...]
    sensitivity: tuple[str, ...]
    manifest: str
    made_by: str


MEANINGS: Mapping[Outcome, str] = {
    Outcome.PASSED: "the verifier accepted",
    Outcome.FAILED: "the agent's own doing",
    Outcome.TIMEOUT: "the agent's time was up",
    Outcome.OOM: "killed at the trial's own threshold",
    Outcome.INFRA_ERROR: "an error of the infrastructure",
}
"""What each outcome means, in a few words."""
