"""Before the first trial: what a design can detect, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_infranoise.analysis.contrasts import assumed_variance
from pytest_infranoise.analysis.results import Analysis
from pytest_infranoise.errors import UsageError
from pytest_infranoise.statistics.power import (
    EQUIVALENCE,
    TrialVariance,
    minimum_detectable_effect,
    samples_for_difference,
    samples_for_equivalence,
)

USUAL_SAMPLES = (1, 3, 5, 10, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A study before it runs.

    `variance` comes from `variance_of` another study, else from a convention. Seconds and cost
    are per trial, None where unknown; `parallel` trials run at once.
    """

    n_tasks: int
    n_sets: int
    effect: float = 0.02
    margin: float = 0.03
    variance: TrialVariance = field(default_factory=TrialVariance)
    seconds_per_trial: float | None = None
    cost_per_trial: float | None = None
    parallel: int = 1


@dataclass(frozen=True, slots=True)
class PlanRow:
    """What `samples` samples per task and set buy.

    `detectable` is the smallest true change that is found with 80 % power at 5 %, `margin_shown`
    the smallest margin that equal sets are shown equivalent within, with the same power.
    """

    samples: int
    trials: int
    detectable: float
    margin_shown: float
    hours: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: rows for the usual numbers of samples, and the samples that the wishes need."""

    design: Design
    rows: tuple[PlanRow, ...]
    samples_for_difference: int
    samples_for_equivalence: int

    def to_json(self) -> dict[str, Any]:
        """Return builtins only; None where undefined."""
        design = self.design
        return {
            "n_tasks": design.n_tasks,
            "n_sets": design.n_sets,
            "effect": design.effect,
            "margin": design.margin,
            "trial_variance": design.variance.value,
            "variance_assumed": design.variance.assumed,
            "samples_for_difference": self.samples_for_difference,
            "samples_for_equivalence": self.samples_for_equivalence,
            "rows": [
                {
                    "samples": row.samples,
                    "trials": row.trials,
                    "detectable": row.detectable,
                    "margin_shown": row.margin_shown,
                    "hours": row.hours,
                    "cost": row.cost,
                }
                for row in self.rows
            ],
        }


def plan(design: Design, samples: Sequence[int] = USUAL_SAMPLES) -> Plan:
    """Return what the design can show with each number of samples.

    Raises:
        UsageError: Fewer than two tasks or sets, or a number that is not above zero.
    """
    _check(design, samples)
    needed_difference = samples_for_difference(design.variance, design.n_tasks, design.effect)
    needed_equivalence = samples_for_equivalence(design.variance, design.n_tasks, design.margin)
    return Plan(
        design=design,
        rows=tuple(plan_row(design, number) for number in samples),
        samples_for_difference=needed_difference,
        samples_for_equivalence=needed_equivalence,
    )


def plan_row(design: Design, samples: int) -> PlanRow:
    """Return what one number of samples buys."""
    se = design.variance.standard_error(design.n_tasks, samples)
    trials = design.n_tasks * design.n_sets * samples
    seconds, cost = design.seconds_per_trial, design.cost_per_trial
    return PlanRow(
        samples=samples,
        trials=trials,
        detectable=minimum_detectable_effect(se),
        margin_shown=EQUIVALENCE * se,
        hours=None if seconds is None else trials * seconds / design.parallel / 3600,
        cost=None if cost is None else trials * cost,
    )


def variance_of(analysis: Analysis) -> TrialVariance:
    """Return the variance of a trial that a study measured, for the plan of the next one."""
    measured = assumed_variance([item.success for item in analysis.comparisons])
    return TrialVariance() if measured is None else measured


def _check(design: Design, samples: Sequence[int]) -> None:
    wrong = [
        ("tasks", design.n_tasks, design.n_tasks >= 2, "2 or more"),
        ("parameter sets", design.n_sets, design.n_sets >= 2, "2 or more"),
        ("effect", design.effect, 0 < design.effect <= 1, "above 0 and at most 100 points"),
        ("margin", design.margin, 0 < design.margin <= 1, "above 0 and at most 100 points"),
        ("parallel", design.parallel, design.parallel >= 1, "1 or more"),
        *(("samples", number, number >= 1, "1 or more") for number in samples),
    ]
    for name, value, fine, needed in wrong:
        if not fine:
            raise UsageError(f"plan: {name} is {value}, but must be {needed}")
