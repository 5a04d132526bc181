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
from pytest_infranoise.statistics.intervals import fixed_task_se
from pytest_infranoise.statistics.multiplicity import holm
from pytest_infranoise.statistics.paired import compare, variance
from pytest_infranoise.statistics.power import (
    Variances,
    estimate_variances,
    minimum_detectable_effect,
    samples_for_equivalence,
)
from pytest_infranoise.statistics.tables import fisher_exact


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
    differences = paired_contrast(x_a, n_a, x_b, n_b, samples_count=not settings.fit_only)
    result = compare(differences)
    assert result.se is not None
    assert result.ci90 is not None
    se = result.se.value
    tost = p_tost(result.difference, se, n_tasks, settings.margin)
    variances = estimate_variances(x_a, n_a, x_b, n_b, variance(differences))
    return MeasureContrast(
        measure=measure,
        n_tasks=n_tasks,
        n_differing=result.n_differing,
        baseline_value=values[0],
        value=values[1],
        difference=result.difference,
        se=se,
        se_t=result.se.t,
        se_floor=result.se.floor,
        se_fixed=_fixed(x_a, n_a, x_b, n_b),
        ci95=result.ci95,
        ci90=result.ci90,
        p_value=result.p_value,
        p_holm=None,
        smallest_p=result.smallest_p,
        p_t=result.p_t,
        p_tost=tost,
        equivalent=not settings.fit_only and tost < settings.alpha_equivalence,
        mde80=minimum_detectable_effect(se),
        bound_shown=max(abs(result.ci90[0]), abs(result.ci90[1])),
        variances=variances,
        samples_needed=samples_for_equivalence(
            variances, n_tasks, settings.margin, floored=result.se.floor > result.se.t
        ),
        method="sign_flip" if result.exact else "sign_flip_monte_carlo",
        status=Status.FIT_ONLY if settings.fit_only else Status.INCONCLUSIVE,
    )


def with_family(
    family: Iterable[MeasureContrast], settings: AnalysisSettings
) -> list[MeasureContrast]:
    """Return one family's contrasts with Holm's p-values and what each then shows."""
    contrasts = list(family)
    tested = [item for item in contrasts if item.status in (Status.INCONCLUSIVE, Status.FIT_ONLY)]
    adjusted = iter(holm([float(item.p_value or 0.0) for item in tested]))
    decided = []
    for item in contrasts:
        p_holm = next(adjusted) if item in tested else None
        decided.append(_decide(item, p_holm, settings))
    return decided


def _decide(
    item: MeasureContrast, p_holm: float | None, settings: AnalysisSettings
) -> MeasureContrast:
    if p_holm is None:
        return item
    detectable = p_holm < settings.alpha_difference
    status = item.status
    if status is not Status.FIT_ONLY:
        if item.equivalent:
            status = Status.EQUIVALENT
        elif detectable:
            status = Status.HIGHER if (item.difference or 0.0) > 0 else Status.LOWER
    return replace(item, p_holm=p_holm, detectable=detectable, status=status)


def _macro(events: IntArray, trials: IntArray) -> float:
    x, n, count = distinct_cells(events, trials)
    return math.fsum(x / n * count) / len(trials)


def _fixed(x_a: IntArray, n_a: IntArray, x_b: IntArray, n_b: IntArray) -> float | None:
    parts = (fixed_task_se(x_a, n_a), fixed_task_se(x_b, n_b))
    return None if parts[0] is None or parts[1] is None else math.hypot(parts[0], parts[1])


def _undefined(measure: Measure, status: Status) -> MeasureContrast:
    return MeasureContrast(
        measure=measure,
        n_tasks=0,
        n_differing=0,
        baseline_value=None,
        value=None,
        difference=None,
        se=None,
        se_t=None,
        se_floor=None,
        se_fixed=None,
        ci95=None,
        ci90=None,
        p_value=None,
        p_holm=None,
        smallest_p=None,
        p_t=None,
        p_tost=None,
        equivalent=False,
        mde80=None,
        bound_shown=None,
        variances=None,
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
    cells = tuple(int(array[0]) for array in (x_a, n_a, x_b, n_b))
    return replace(
        _undefined(measure, Status.ONE_TASK),
        n_tasks=1,
        n_differing=int(not math.isclose(values[0], values[1], abs_tol=1e-12)),
        baseline_value=values[0],
        value=values[1],
        difference=values[1] - values[0],
        p_value=fisher_exact(*cells),
        method="fisher_one_task",
    )


def assumed_variances(contrasts: Sequence[MeasureContrast]) -> Variances | None:
    """Return the variances behind the plan of a next study: the mean over success contrasts."""
    known = [item.variances for item in contrasts if item.variances is not None]
    if not known:
        return None
    return Variances(
        trial=float(np.mean([item.trial for item in known])),
        effect=float(np.mean([item.effect for item in known])),
        assumed=any(item.assumed for item in known),
    )
