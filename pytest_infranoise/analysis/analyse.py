"""A study's outcomes in, an `Analysis` out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_infranoise.analysis.contrasts import (
    Events,
    in_sequence,
    measure_contrast,
    measured,
    with_family,
    without_equivalence,
)
from pytest_infranoise.analysis.ladder import Ladder, build_ladder, known_sets
from pytest_infranoise.analysis.movement import movements
from pytest_infranoise.analysis.noise import noise_band
from pytest_infranoise.analysis.over_time import drifts
from pytest_infranoise.analysis.recommendation import article_choice, recommend
from pytest_infranoise.analysis.results import (
    Analysis,
    Comparison,
    Kills,
    Measure,
    MeasureContrast,
    Movement,
    NoiseBand,
    Recommendation,
    SetResult,
    Status,
)
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.tally import Tally, tally
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.resources import ParameterSet
from pytest_infranoise.model.table import OUTCOMES, OutcomeTable
from pytest_infranoise.statistics.intervals import rate
from pytest_infranoise.statistics.recommend import RecommendationStatus, covered
from pytest_infranoise.statistics.spread import Spread, spread
from pytest_infranoise.statistics.tables import cochran_mantel_haenszel
from pytest_infranoise.statistics.trend import Trend, trend

_TESTED = (Measure.SUCCESS, Measure.INFRA_ERROR, Measure.AGENT_FAILURE)
_DEFAULTS = AnalysisSettings()


def analyse(
    table: OutcomeTable,
    *,
    sets: Sequence[ParameterSet] = (),
    baseline: str | None = None,
    settings: AnalysisSettings = _DEFAULTS,
) -> Analysis:
    """Analyse the outcomes of a study; the first attempt of every trial counts.

    Args:
        table: One row per attempt, in any order; a row that occurs twice counts once.
        sets: The study's parameter sets. A set that is not among them is read from its id (`3x`,
            `uncapped`, `mem5x-cpu1x`); where an id says nothing, the order in the table counts.
        baseline: The set that the others are compared with; None is 1x, else the tightest.
        settings: The reader's choices.

    Raises:
        UsageError: The baseline, the control or the dimension is none of this study's.
    """
    names = table.parameter_sets
    if settings.control is not None and settings.control not in names:
        raise UsageError(f"control: {settings.control!r} is not a parameter set of this study")
    compared = [name for name in names if name != settings.control]
    counts = tally(table)
    if not compared:
        return _empty(settings)
    known = known_sets(compared, sets)
    ladder = build_ladder(compared, known, baseline=baseline, dimension=settings.dimension)
    for name in (settings.floor, settings.ceiling):
        if name is not None and name not in names:
            raise UsageError(f"noise band: {name!r} is not a parameter set of this study")
    declared = None if settings.ceiling == ladder.baseline else settings.ceiling
    ceiling = declared or ladder.default_ceiling(known)
    study = _Study(
        table.tasks, names, counts, measured(counts, settings), settings, ladder, ceiling
    )
    results = tuple(study.set_result(name) for name in names)
    comparisons, control = study.comparisons(compared)
    trends, spreads = study.along_ladder()
    per_cell = counts.trials[counts.trials > 0]
    return Analysis(
        settings=settings,
        baseline=ladder.baseline,
        ladder=ladder,
        n_tasks=int(np.count_nonzero(counts.trials.any(axis=1))),
        n_trials=int(counts.trials.sum()),
        samples=(int(per_cell.min()), int(per_cell.max())) if per_cell.size else (0, 0),
        sets=results,
        comparisons=comparisons,
        control=control,
        not_compared=tuple(n for n in compared if n in settings.same_as_baseline),
        trend=trends,
        spread=spreads,
        drift=drifts(counts, study.measures, settings),
        noise_band=noise_band(study, ceiling, comparisons, control, spreads, results),
        recommendation=recommend(ladder, ceiling, results, comparisons, settings),
        article_choice=article_choice(ladder, results, settings),
        later_attempts=counts.later_attempts,
        duplicates=counts.duplicates,
    )


@dataclass(frozen=True, slots=True)
class _Study:
    """The counts of a study with what is needed to read them."""

    tasks: Sequence[str]
    names: Sequence[str]
    counts: Tally
    measures: dict[Measure, Events]
    settings: AnalysisSettings
    ladder: Ladder
    ceiling: str | None

    def contrast(self, measure: Measure, a: str, b: str) -> MeasureContrast:
        """Compare set `b` with set `a`."""
        events = self.measures[measure]
        first, second = self.names.index(a), self.names.index(b)
        return measure_contrast(measure, events.column(first), events.column(second), self.settings)

    def set_result(self, name: str) -> SetResult:
        """Return counts, rates and kills of one set."""
        column, counts = self.names.index(name), self.counts
        trials = counts.trials[:, column]
        ran = trials[trials > 0]
        independent = not self.settings.fit_only
        rates = {
            measure: rate(*events.column(column), samples_count=independent)
            for measure, events in self.measures.items()
        }
        infra = int(self.measures[Measure.INFRA_ERROR].events[:, column].sum())
        passed = int(counts.count(Outcome.PASSED)[:, column].sum())
        survived = int(trials.sum()) - infra
        return SetResult(
            id=name,
            is_baseline=name == self.ladder.baseline,
            is_control=name == self.settings.control,
            n_tasks=len(ran),
            n_trials=int(ran.sum()),
            samples=(int(ran.min()), int(ran.max())) if ran.size else (0, 0),
            outcomes=dict(
                zip(OUTCOMES, (int(v) for v in counts.outcomes[:, column].sum(axis=0)), strict=True)
            ),
            oom_ended_phase=int(counts.ended_phase[:, column].sum()),
            success=rates[Measure.SUCCESS],
            infra_error=rates[Measure.INFRA_ERROR],
            agent_failure=rates[Measure.AGENT_FAILURE],
            ended_phase=rate(counts.ended_phase[:, column], trials, samples_count=independent),
            success_excluding_infra=passed / survived if survived else None,
            kills=Kills(
                number=int(counts.kills[:, column].sum()),
                tasks=int(np.count_nonzero(counts.kills[:, column])),
                trials=int(counts.trials_with_kills[:, column].sum()),
                unknown_trials=int(counts.kills_unknown[:, column].sum()),
                foreign_trials=int(counts.foreign_kills[:, column].sum()),
            ),
            timeouts_after_kill=int(counts.timeouts_after_kill[:, column].sum()),
            timeouts_throttled=int(counts.timeouts_throttled[:, column].sum()),
        )

    def comparisons(
        self, compared: Sequence[str]
    ) -> tuple[tuple[Comparison, ...], Comparison | None]:
        """Return every set against the baseline, and the A/A control."""
        settings, base = self.settings, self.ladder.baseline
        others = [n for n in compared if n != base and n not in settings.same_as_baseline]
        control = [] if settings.control is None else [settings.control]
        moved = self._movements(others)
        families = {
            measure: self._family([self.contrast(measure, base, name) for name in others], others)
            for measure in _TESTED
        }
        families[Measure.SUCCESS] = self._covered(families[Measure.SUCCESS], others)
        aa = {}
        for name in control:
            alone = {m: with_family([self.contrast(m, base, name)], settings)[0] for m in _TESTED}
            aa[name] = self._comparison(name, alone, self._movements([name])[0])
        found = []
        for position, name in enumerate(others):
            contrasts = {measure: family[position] for measure, family in families.items()}
            for item in aa.values():
                contrasts = _marked(contrasts, item)
            found.append(self._comparison(name, contrasts, moved[position]))
        return tuple(found), next(iter(aa.values()), None)

    def _family(
        self, contrasts: Sequence[MeasureContrast], names: Sequence[str]
    ) -> list[MeasureContrast]:
        """Test the sets of the ladder from the top down, any others by Holm's correction."""
        ladder = self.ladder
        climbing = ladder.above if ladder.is_ordered else ()
        found = dict(zip(names, contrasts, strict=True))
        ladder_names = [name for name in climbing if name in found]
        others = [name for name in names if name not in climbing]
        tested = dict(
            zip(
                ladder_names,
                in_sequence((found[name] for name in ladder_names), self.settings),
                strict=True,
            )
        )
        corrected = with_family((found[name] for name in others), self.settings)
        tested.update(zip(others, corrected, strict=True))
        return [tested[name] for name in names]

    def _covered(
        self, contrasts: Sequence[MeasureContrast], names: Sequence[str]
    ) -> list[MeasureContrast]:
        """Keep equivalence on the ladder where the declared ceiling, tested first, allows it."""
        ladder = [name for name in self.ladder.above if name in names]
        if not self.ladder.is_ordered or self.ceiling is None:
            return list(contrasts)
        found = dict(zip(names, contrasts, strict=True))
        holding = {name for name in ladder if found[name].equivalent}
        kept = covered(ladder, holding, self.ceiling)
        return [
            without_equivalence(found[name], self.settings)
            if name in ladder and name not in kept
            else found[name]
            for name in names
        ]

    def _movements(self, names: Sequence[str]) -> list[Movement]:
        columns = [self.names.index(name) for name in names]
        base = self.names.index(self.ladder.baseline)
        return movements(self.measures, self.tasks, base, columns, self.settings.alpha)

    def _comparison(
        self, name: str, contrasts: dict[Measure, MeasureContrast], movement: Movement
    ) -> Comparison:
        base = self.ladder.baseline
        first, second = self.names.index(base), self.names.index(name)
        success = self.measures[Measure.SUCCESS]
        trials = success.trials[:, [first, second]] > 0
        common = int(np.count_nonzero(trials.all(axis=1)))
        host_memory = bool(self.counts.foreign_kills[:, [first, second]].any())
        if host_memory:
            contrasts = {measure: _undecided(item) for measure, item in contrasts.items()}
        return Comparison(
            parameter_set=name,
            baseline=base,
            n_common=common,
            n_dropped=int(np.count_nonzero(trials.any(axis=1))) - common,
            success=contrasts[Measure.SUCCESS],
            infra_error=contrasts[Measure.INFRA_ERROR],
            agent_failure=contrasts[Measure.AGENT_FAILURE],
            oom=self.contrast(Measure.OOM, base, name),
            timeout=self.contrast(Measure.TIMEOUT, base, name),
            movement=movement,
            cmh=cochran_mantel_haenszel(*success.column(first), *success.column(second)),
            host_memory=host_memory,
        )

    def along_ladder(self) -> tuple[dict[Measure, Trend], dict[Measure, Spread]]:
        """Return trend and spread over the sets from 1x upwards."""
        steps = [self.names.index(name) for name in self.ladder.steps]
        trends: dict[Measure, Trend] = {}
        spreads: dict[Measure, Spread] = {}
        for measure in (Measure.SUCCESS, Measure.INFRA_ERROR):
            events, trials = self.measures[measure].columns(steps)
            slope = trend(events, trials, samples_count=not self.settings.fit_only)
            width = spread(events, trials)
            if slope is not None:
                trends[measure] = slope
            if width is not None:
                spreads[measure] = width
        return trends, spreads


def _marked(
    contrasts: dict[Measure, MeasureContrast], control: Comparison
) -> dict[Measure, MeasureContrast]:
    """Mark every contrast that is no larger than that of two identical sets."""
    same = {item.measure: item for item in control.measures}

    def is_within(item: MeasureContrast) -> bool:
        other = same[item.measure].difference
        return (
            item.difference is not None and other is not None and abs(item.difference) <= abs(other)
        )

    return {
        measure: replace(item, within_control=is_within(item))
        for measure, item in contrasts.items()
    }


def _undecided(item: MeasureContrast) -> MeasureContrast:
    """Return the contrast of sets in which trials were killed from outside: nothing follows."""
    if item.status not in (Status.EQUIVALENT, Status.HIGHER, Status.LOWER):
        return item
    return replace(item, status=Status.INCONCLUSIVE)


def _empty(settings: AnalysisSettings) -> Analysis:
    return Analysis(
        settings=settings,
        baseline=None,
        ladder=None,
        n_tasks=0,
        n_trials=0,
        samples=(0, 0),
        sets=(),
        comparisons=(),
        control=None,
        not_compared=(),
        trend={},
        spread={},
        drift={},
        noise_band=NoiseBand(None, None, None, None, None, None),
        recommendation=Recommendation(
            RecommendationStatus.NOT_APPLICABLE, None, "the study has no parameter set"
        ),
        article_choice=None,
        later_attempts=0,
        duplicates=0,
    )
