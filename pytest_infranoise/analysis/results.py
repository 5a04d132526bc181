"""What an analysis holds: frozen data that summaries, reports and gates print.

Rates, differences and intervals are proportions. None is unknown or undefined, never zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pytest_infranoise.analysis.ladder import Ladder
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.statistics.drift import Drift
from pytest_infranoise.statistics.intervals import Interval, Rate
from pytest_infranoise.statistics.paired import Paired
from pytest_infranoise.statistics.power import TrialVariance
from pytest_infranoise.statistics.recommend import RecommendationStatus
from pytest_infranoise.statistics.spread import Spread
from pytest_infranoise.statistics.tables import ChiSquare
from pytest_infranoise.statistics.trend import Trend


class Status(StrEnum):
    """What a contrast against the baseline shows."""

    EQUIVALENT = "equivalent"
    HIGHER = "higher"
    LOWER = "lower"
    INCONCLUSIVE = "inconclusive"
    FIT_ONLY = "fit_only"
    ONE_TASK = "one_task"
    NO_COMMON_TASK = "no_common_task"


class Measure(StrEnum):
    """The rates that are compared; the first three sum to 1 in every set."""

    SUCCESS = "success"
    INFRA_ERROR = "infra_error"
    AGENT_FAILURE = "agent_failure"
    OOM = "oom"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Kills:
    """Kernel kills at the own threshold, counted, in the first attempts of one set.

    `unknown_trials` is in how many trials nobody could count them; `foreign_trials` how many the
    host's memory or somebody unknown killed (never evidence about the threshold).
    """

    number: int
    tasks: int
    trials: int
    unknown_trials: int
    foreign_trials: int


@dataclass(frozen=True, slots=True)
class SetResult:
    """One parameter set: counts, rates, kills.

    `success_excluding_infra` is passed / (trials - infra errors), descriptive only: different
    trials survive in different sets.
    """

    id: str
    is_baseline: bool
    is_control: bool
    n_tasks: int
    n_trials: int
    samples: tuple[int, int]
    outcomes: Mapping[Outcome, int]
    oom_ended_phase: int
    success: Rate | None
    infra_error: Rate | None
    agent_failure: Rate | None
    ended_phase: Rate | None
    success_excluding_infra: float | None
    kills: Kills
    timeouts_after_kill: int
    timeouts_throttled: int


@dataclass(frozen=True, slots=True)
class MeasureContrast:
    """One measure of one set minus the baseline's, paired by task.

    The claims are about these very tasks. `method` is within_task, within_task_monte_carlo or
    fisher_one_task. `value` and `baseline_value` are the rates on the common tasks. `p_adjusted` is
    the p-value in its sequence or family, None where the contrast belongs to none; with `is_tested`
    False the sequence ended before it. `samples_needed` is what would show +-margin, None where no
    more than what ran, or unknown. `like_these` is the generalisation to tasks like these.
    """

    measure: Measure
    n_tasks: int
    n_differing: int
    baseline_value: float | None
    value: float | None
    difference: float | None
    se: float | None
    se_plain: float | None
    se_floor: float | None
    df: int | None
    ci95: Interval | None
    ci90: Interval | None
    p_value: float | None
    p_adjusted: float | None
    smallest_p: float | None
    p_tost: float | None
    equivalent: bool
    mde80: float | None
    bound_shown: float | None
    variance: TrialVariance | None
    samples_needed: int | None
    method: str | None
    status: Status
    detectable: bool = False
    is_tested: bool = True
    within_control: bool = False
    like_these: Paired | None = None


class Shift(StrEnum):
    """How a task's outcome changed from the baseline to a set."""

    RESCUED = "rescued"
    DOOMED = "doomed"
    EASED = "eased"
    RECOVERED = "recovered"
    WORSENED = "worsened"
    STILL_KILLED = "still_killed"


@dataclass(frozen=True, slots=True)
class TaskShift:
    """A task that moved by itself: Fisher's exact p within the task, q after Benjamini-Hochberg."""

    task: str
    difference: float
    p_value: float
    q_value: float


@dataclass(frozen=True, slots=True)
class Movement:
    """The tasks whose outcome changed, by kind, and those that moved beyond chance.

    `named` are the tasks of each kind whose move is beyond chance: in success, or for the doomed in
    kills. `significant` are those by success, with their figures.
    """

    tasks: Mapping[Shift, tuple[str, ...]]
    named: Mapping[Shift, tuple[str, ...]]
    significant: tuple[TaskShift, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One parameter set against the baseline.

    `host_memory` says that trials in one of the two were killed by the host's own memory or an
    unknown hand; every status is then inconclusive.
    """

    parameter_set: str
    baseline: str
    n_common: int
    n_dropped: int
    success: MeasureContrast
    infra_error: MeasureContrast
    agent_failure: MeasureContrast
    oom: MeasureContrast
    timeout: MeasureContrast
    movement: Movement
    cmh: ChiSquare | None
    host_memory: bool

    @property
    def measures(self) -> Iterator[MeasureContrast]:
        """The three measures that sum to zero."""
        yield from (self.success, self.infra_error, self.agent_failure)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The kill threshold to set, and why.

    `parameter_set` is what to set, None where nothing is claimed. `candidate` is the set that the
    rule chose even where the recommendation is withheld; where tasks become easier it is the lowest
    set from which on they do. `ceiling` is the declared set whose bounds were tested first.
    `notes` name what a reader must know beside it.
    """

    status: RecommendationStatus
    parameter_set: str | None
    why: str
    candidate: str | None = None
    ceiling: str | None = None
    infra_reduced: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    neutral: tuple[str, ...] = ()
    eased: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredBand:
    """A pre-specified contrast of success between two sets."""

    floor: str
    ceiling: str
    contrast: MeasureContrast


@dataclass(frozen=True, slots=True)
class NoiseBand:
    """How far infrastructure alone moves the score.

    `rerun` is +-1.96 fixed-task standard errors of the baseline's score, `sampling` its standard
    error over tasks; `declared` the band between floor and ceiling, `extremes` baseline to
    uncapped, `spread` the observed max - min beside its null, `control` the A/A contrast.
    """

    rerun: float | None
    sampling: float | None
    declared: DeclaredBand | None
    extremes: DeclaredBand | None
    spread: Spread | None
    control: MeasureContrast | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that the summary of a study prints, as data.

    `control` is the A/A contrast, where one ran; it is in no family. `article_choice` is what a
    rule of pooled tests would recommend, for sensitivity only. `not_compared` are sets whose
    limits equal the baseline's. `later_attempts` and `duplicates` count rows in no rate.
    """

    settings: AnalysisSettings
    baseline: str | None
    ladder: Ladder | None
    n_tasks: int
    n_trials: int
    samples: tuple[int, int]
    sets: tuple[SetResult, ...]
    comparisons: tuple[Comparison, ...]
    control: Comparison | None
    not_compared: tuple[str, ...]
    trend: Mapping[Measure, Trend]
    spread: Mapping[Measure, Spread]
    drift: Mapping[Measure, Drift]
    noise_band: NoiseBand
    recommendation: Recommendation
    article_choice: str | None
    later_attempts: int
    duplicates: int

    def set(self, name: str) -> SetResult:
        """Return one parameter set's results; KeyError if there is none of this name."""
        for item in self.sets:
            if item.id == name:
                return item
        raise KeyError(name)

    def comparison(self, name: str) -> Comparison:
        """Return one set's comparison with the baseline; KeyError if there is none."""
        for item in self.comparisons:
            if item.parameter_set == name:
                return item
        raise KeyError(name)

    @property
    def fallen(self) -> tuple[str, ...]:
        """The sets in which success fell beyond chance."""
        return tuple(
            item.parameter_set
            for item in self.comparisons
            if item.success.detectable and (item.success.difference or 0.0) < 0
        )

    @property
    def undecided(self) -> tuple[str, ...]:
        """The sets whose success or infra errors are neither different nor equivalent yet."""
        decided = {Status.EQUIVALENT, Status.HIGHER, Status.LOWER}
        return tuple(
            item.parameter_set
            for item in self.comparisons
            if not {item.success.status, item.infra_error.status} <= decided
        )

    def to_json(self) -> dict[str, Any]:
        """Return the documented, stable table (docs/statistics.md) as builtins."""
        from pytest_infranoise.analysis.export import analysis_to_json

        return analysis_to_json(self)
