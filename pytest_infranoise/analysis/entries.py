"""Two agents, models or leaderboard entries: is the lead larger than the noise?

Configurations that match differ by sampling alone. Where they differ, or one is unknown,
infrastructure noise stacks on top: a lead is held against the sum of the sampling half-width, the
noise band and the band's own half-width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pytest_infranoise.analysis.contrasts import measure_contrast, measured
from pytest_infranoise.analysis.results import Measure, MeasureContrast
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.tally import tally
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.table import OutcomeTable
from pytest_infranoise.statistics.contrasts import IntArray, contrast
from pytest_infranoise.statistics.intervals import Interval, newcombe
from pytest_infranoise.statistics.paired import Paired, compare

SCEPTICAL_BELOW = 0.03
"""A lead smaller than this deserves scepticism while configurations are unknown or unmatched."""

_DEFAULTS = AnalysisSettings()


class Lead(StrEnum):
    """What a difference between two entries is larger than."""

    BEYOND_BOTH = "beyond_sampling_and_infrastructure"
    BEYOND_SAMPLING = "beyond_sampling_only"
    WITHIN_SAMPLING = "within_sampling"
    BEYOND_SAMPLING_MATCHED = "beyond_sampling_configurations_match"
    BEYOND_SAMPLING_BAND_UNKNOWN = "beyond_sampling_band_unknown"
    UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """What infrastructure may have added to a difference.

    `band` is the noise band, a proportion, None where unknown, `half_width` how far its own 95 %
    interval reaches. Neither counts where the configurations `match`.
    """

    band: float | None = None
    half_width: float = 0.0
    match: bool = False

    @property
    def reach(self) -> float | None:
        """How far infrastructure may have moved a difference; None where unknown."""
        if self.match:
            return 0.0
        return None if self.band is None else abs(self.band) + self.half_width


UNKNOWN = Infrastructure()


@dataclass(frozen=True, slots=True)
class EntryComparison:
    """Entry B minus entry A under one parameter set each, paired by task name."""

    set_a: str
    set_b: str
    contrast: MeasureContrast
    half_width: float | None
    infrastructure: Infrastructure
    lead: Lead
    sceptical: bool


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """Two published scores, unpaired.

    `ci95` takes a task's samples as one (the cautious answer, which decides), `ci95_independent`
    all trials as independent (the least that sampling can be). `half_width` is how far the
    cautious interval reaches towards zero.
    """

    difference: float
    ci95: Interval
    ci95_independent: Interval
    half_width: float
    infrastructure: Infrastructure
    lead: Lead
    sceptical: bool


def compare_entries(
    a: OutcomeTable,
    b: OutcomeTable,
    pairs: Sequence[tuple[str, str]],
    *,
    infrastructure: Infrastructure = UNKNOWN,
    settings: AnalysisSettings = _DEFAULTS,
) -> tuple[EntryComparison, ...]:
    """Compare two entries' success, for each pair of parameter sets.

    Args:
        a: The outcomes of one entry.
        b: The outcomes of the other; tasks are matched by name.
        pairs: A set of `a` and the set of `b` to hold against it.
        infrastructure: What the configurations may have added.
        settings: Margin and error rate.

    Raises:
        UsageError: A set is not among the entry's.
    """
    first, second = _successes(a, settings), _successes(b, settings)
    tasks = sorted(first.keys & second.keys)
    found = []
    for set_a, set_b in pairs:
        result = measure_contrast(
            Measure.SUCCESS, first.cells(set_a, tasks), second.cells(set_b, tasks), settings
        )
        half = None if result.ci95 is None else (result.ci95[1] - result.ci95[0]) / 2
        lead = _lead(result.difference, half, infrastructure)
        sceptical = _sceptical(result.difference, infrastructure)
        found.append(EntryComparison(set_a, set_b, result, half, infrastructure, lead, sceptical))
    return tuple(found)


def interaction(
    a: OutcomeTable,
    b: OutcomeTable,
    *,
    from_sets: tuple[str, str],
    to_sets: tuple[str, str],
    settings: AnalysisSettings = _DEFAULTS,
) -> Paired | None:
    """Return the lift of entry B minus the lift of entry A, paired by task.

    A claim that a lead depends on the multiplier needs this; two separate tests are no such claim.

    Args:
        a: The outcomes of one entry.
        b: The outcomes of the other; tasks are matched by name.
        from_sets: The lower set of `a` and of `b`.
        to_sets: The higher set of `a` and of `b`.
        settings: Whether samples count.

    Returns:
        None if no task ran in all four.
    """
    first, second = _successes(a, settings), _successes(b, settings)
    tasks = sorted(first.keys & second.keys)
    cells = [
        first.cells(from_sets[0], tasks),
        first.cells(to_sets[0], tasks),
        second.cells(from_sets[1], tasks),
        second.cells(to_sets[1], tasks),
    ]
    lifts = contrast(
        [events for events, _ in cells],
        [trials for _, trials in cells],
        (1, -1, -1, 1),
        samples_count=not settings.fit_only,
    )
    return compare(lifts) if lifts.n_tasks else None


def compare_published(
    score_a: float,
    score_b: float,
    *,
    n_tasks: int,
    samples: int,
    infrastructure: Infrastructure = UNKNOWN,
) -> PublishedComparison:
    """Compare two published scores of which nothing else is known.

    Args:
        score_a: A proportion.
        score_b: A proportion.
        n_tasks: The benchmark's number of tasks.
        samples: Runs per task behind each score.
        infrastructure: What the configurations may have added.

    Raises:
        UsageError: A score outside 0 to 1, or no task or sample.
    """
    for score in (score_a, score_b):
        if not (math.isfinite(score) and 0 <= score <= 1):
            raise UsageError(f"compare: score {score * 100:g} is not between 0 and 100 per cent")
    if n_tasks < 1 or samples < 1:
        raise UsageError("compare: tasks and samples must be 1 or more")
    cautious = newcombe(score_a, n_tasks, score_b, n_tasks)
    trials = n_tasks * samples
    difference = score_b - score_a
    # The interval is not symmetric: what counts is how far it reaches towards zero.
    half = difference - cautious[0] if difference >= 0 else cautious[1] - difference
    return PublishedComparison(
        difference=difference,
        ci95=cautious,
        ci95_independent=newcombe(score_a, trials, score_b, trials),
        half_width=half,
        infrastructure=infrastructure,
        lead=_lead(difference, half, infrastructure),
        sceptical=_sceptical(difference, infrastructure),
    )


@dataclass(frozen=True, slots=True)
class _Successes:
    """Passed trials and trials per task name, shape (tasks, sets)."""

    rows: dict[str, int]
    sets: tuple[str, ...]
    events: IntArray
    trials: IntArray

    @property
    def keys(self) -> set[str]:
        return set(self.rows)

    def cells(self, name: str, tasks: Sequence[str]) -> tuple[IntArray, IntArray]:
        if name not in self.sets:
            raise UsageError(
                f"compare: {name!r} is not a parameter set of this study; it has "
                + (", ".join(self.sets) or "none")
            )
        which = np.array([self.rows[task] for task in tasks], dtype=np.int64)
        column = self.sets.index(name)
        return self.events[which, column], self.trials[which, column]


def _successes(table: OutcomeTable, settings: AnalysisSettings) -> _Successes:
    success = measured(tally(table), settings)[Measure.SUCCESS]
    rows = {name: index for index, name in enumerate(table.tasks)}
    return _Successes(rows, tuple(table.parameter_sets), success.events, success.trials)


def _lead(
    difference: float | None, half_width: float | None, infrastructure: Infrastructure
) -> Lead:
    if difference is None or half_width is None:
        return Lead.UNDEFINED
    if abs(difference) <= half_width:
        return Lead.WITHIN_SAMPLING
    if infrastructure.match:
        return Lead.BEYOND_SAMPLING_MATCHED
    reach = infrastructure.reach
    if reach is None:
        return Lead.BEYOND_SAMPLING_BAND_UNKNOWN
    return Lead.BEYOND_BOTH if abs(difference) > half_width + reach else Lead.BEYOND_SAMPLING


def _sceptical(difference: float | None, infrastructure: Infrastructure) -> bool:
    return (
        infrastructure.reach is None
        and difference is not None
        and abs(difference) < SCEPTICAL_BELOW
    )
