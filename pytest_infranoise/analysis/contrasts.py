"""Each parameter set against the baseline, measure by measure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_infranoise.analysis.results import Measure, MeasureContrast, Status
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.tally import Tally
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.statistics.contrasts import IntArray, distinct_cells, paired_contrast
from pytest_infranoise.statistics.equivalence import p_tost
from pytest_infranoise.statistics.multiplicity import fixed_sequence, holm
from pytest_infranoise.statistics.paired import Paired, compare
from pytest_infranoise.statistics.power import (
    TrialVariance,
    minimum_detectable_effect,
    more_samples,
    pooled_trial_variance,
)
from pytest_infranoise.statistics.these_tasks import Precision, interval, precision
from pytest_infranoise.statistics.within import Within, within_task


@dataclass(frozen=True, slots=True)
class Events:
    """Trials with the event of one measure, and trials in all, both of shape (tasks, sets)."""

    events: IntArray
    trials: IntArray

    def column(self, index: int) -> tuple[IntArray, IntArray]:
        """Events and trials of one set, shape (tasks,)."""
        return self.events[:, index], self.trials[:, index]

    def columns(self, indices: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Events and trials of some sets, shape (tasks, sets)."""
        return self.events[:, list(indices)], self.trials[:, list(indices)]


def measured(counts: Tally, settings: AnalysisSettings) -> dict[Measure, Events]:
    """Return what each measure counts."""
    infra = [Outcome.OOM, Outcome.INFRA_ERROR]
    agent = [Outcome.FAILED]
    (infra if settings.timeouts_are_infra else agent).append(Outcome.TIMEOUT)
    which = {
        Measure.SUCCESS: [Outcome.PASSED],
        Measure.INFRA_ERROR: infra,
        Measure.AGENT_FAILURE: agent,
        Measure.OOM: [Outcome.OOM],
        Measure.TIMEOUT: [Outcome.TIMEOUT],
    }
    trials = counts.trials
    return {name: Events(counts.count(*outcomes), trials) for name, outcomes in which.items()}


def measure_contrast(
    measure: Measure,
    a: tuple[IntArray, IntArray],
    b: tuple[IntArray, IntArray],
    settings: AnalysisSettings,
) -> MeasureContrast:
    """Compare B with A on their common tasks; each is events and trials of shape (tasks,)."""
    common = (a[1] > 0) & (b[1] > 0)
    x_a, n_a, x_b, n_b = (array[common] for array in (*a, *b))
    n_tasks = len(n_a)
    if n_tasks == 0:
        return _undefined(measure, Status.NO_COMMON_TASK)
    values = (_macro(x_a, n_a), _macro(x_b, n_b))
    if n_tasks == 1:
        return _one_task(measure, values, x_a, n_a, x_b, n_b)
    like_these = compare(paired_contrast(x_a, n_a, x_b, n_b, samples_count=not settings.fit_only))
    fixed = None if settings.fit_only else precision(x_a, n_a, x_b, n_b)
    sure = _as_precision(like_these) if fixed is None else fixed
    test = _test(like_these, (x_a, n_a, x_b, n_b), settings)
    difference, se = like_these.difference, sure.value
    ci90 = interval(difference, se, sure.df, 0.90)
    tost = p_tost(difference, se, sure.df, settings.margin)
    return MeasureContrast(
        measure=measure,
        n_tasks=n_tasks,
        n_differing=like_these.n_differing,
        baseline_value=values[0],
        value=values[1],
        difference=difference,
        se=se,
        se_plain=sure.plain,
        se_floor=sure.floor,
        df=sure.df,
        ci95=interval(difference, se, sure.df, 0.95),
        ci90=ci90,
        p_value=test.p_value,
        p_adjusted=None,
        smallest_p=test.smallest_p,
        p_tost=tost,
        equivalent=not settings.fit_only and tost < settings.alpha_equivalence,
        mde80=minimum_detectable_effect(se),
        bound_shown=max(abs(ci90[0]), abs(ci90[1])),
        variance=pooled_trial_variance(x_a, n_a, x_b, n_b),
        samples_needed=None if settings.fit_only else more_samples(se, n_a, n_b, settings.margin),
        method="within_task" if test.exact else "within_task_monte_carlo",
        status=Status.FIT_ONLY if settings.fit_only else Status.INCONCLUSIVE,
        like_these=like_these,
    )


def _as_precision(paired: Paired) -> Precision:
    """One sample per cell, or copies: only the spread between tasks tells how sure a mean is."""
    assert paired.se is not None
    return Precision(paired.se.t, paired.se.floor, paired.n_tasks - 1)


def _test(like_these: Paired, cells: tuple[IntArray, ...], settings: AnalysisSettings) -> Within:
    if settings.fit_only:  # copies are one sample, for which both tests are McNemar's
        return Within(like_these.p_value, like_these.smallest_p, like_these.exact)
    return within_task(*cells)


def in_sequence(
    family: Iterable[MeasureContrast], settings: AnalysisSettings
) -> list[MeasureContrast]:
    """Return the contrasts of one ladder, ascending, tested from the top down.

    The first that is not significant ends the sequence; what lies below it is not tested.
    """
    contrasts = list(family)
    tested = [item for item in reversed(contrasts) if _is_testable(item)]
    adjusted = fixed_sequence([float(item.p_value or 0.0) for item in tested])
    ended, decided = False, {}
    for item, p_adjusted in zip(tested, adjusted, strict=True):
        decided[id(item)] = _decide(replace(item, is_tested=not ended), p_adjusted, settings)
        ended = ended or p_adjusted >= settings.alpha_difference
    return [decided.get(id(item), item) for item in contrasts]


def with_family(
    family: Iterable[MeasureContrast], settings: AnalysisSettings
) -> list[MeasureContrast]:
    """Return the contrasts of sets without an order, with Holm's p-values."""
    contrasts = list(family)
    tested = [item for item in contrasts if _is_testable(item)]
    adjusted = iter(holm([float(item.p_value or 0.0) for item in tested]))
    return [
        _decide(item, next(adjusted), settings) if _is_testable(item) else item
        for item in contrasts
    ]


def without_equivalence(item: MeasureContrast, settings: AnalysisSettings) -> MeasureContrast:
    """Return the contrast without the claim of equivalence, which its turn never came for."""
    if item.p_adjusted is None or item.status is not Status.EQUIVALENT:
        return item
    undecided = replace(item, equivalent=False, status=Status.INCONCLUSIVE)
    return _decide(undecided, item.p_adjusted, settings)


def _is_testable(item: MeasureContrast) -> bool:
    return item.status in (Status.INCONCLUSIVE, Status.FIT_ONLY)


def _decide(
    item: MeasureContrast, p_adjusted: float, settings: AnalysisSettings
) -> MeasureContrast:
    detectable = p_adjusted < settings.alpha_difference
    status = item.status
    if status is not Status.FIT_ONLY:
        if item.equivalent:
            status = Status.EQUIVALENT
        elif detectable:
            status = Status.HIGHER if (item.difference or 0.0) > 0 else Status.LOWER
    return replace(item, p_adjusted=p_adjusted, detectable=detectable, status=status)


def _macro(events: IntArray, trials: IntArray) -> float:
    x, n, count = distinct_cells(events, trials)
    return math.fsum(x / n * count) / len(trials)


def _undefined(measure: Measure, status: Status) -> MeasureContrast:
    return MeasureContrast(
        measure=measure,
        n_tasks=0,
        n_differing=0,
        baseline_value=None,
        value=None,
        difference=None,
        se=None,
        se_plain=None,
        se_floor=None,
        df=None,
        ci95=None,
        ci90=None,
        p_value=None,
        p_adjusted=None,
        smallest_p=None,
        p_tost=None,
        equivalent=False,
        mde80=None,
        bound_shown=None,
        variance=None,
        samples_needed=None,
        method=None,
        status=status,
    )


def _one_task(
    measure: Measure,
    values: tuple[float, float],
    x_a: IntArray,
    n_a: IntArray,
    x_b: IntArray,
    n_b: IntArray,
) -> MeasureContrast:
    test = within_task(x_a, n_a, x_b, n_b)
    return replace(
        _undefined(measure, Status.ONE_TASK),
        n_tasks=1,
        n_differing=int(not math.isclose(values[0], values[1], abs_tol=1e-12)),
        baseline_value=values[0],
        value=values[1],
        difference=values[1] - values[0],
        p_value=test.p_value,
        smallest_p=test.smallest_p,
        method="fisher_one_task",
    )


def assumed_variance(contrasts: Sequence[MeasureContrast]) -> TrialVariance | None:
    """Return the variance behind the plan of a next study: the mean over success contrasts."""
    known = [item.variance for item in contrasts if item.variance is not None]
    if not known:
        return None
    return TrialVariance(
        float(np.mean([item.value for item in known])), any(item.assumed for item in known)
    )
