"""The Analysis as builtins: the stable table of `infranoise report --format json`."""

import math
from collections.abc import Mapping
from typing import Any

from pytest_infranoise.analysis.results import (
    Analysis,
    Comparison,
    DeclaredBand,
    Measure,
    MeasureContrast,
    SetResult,
)
from pytest_infranoise.analysis.words_answer import answer_lines
from pytest_infranoise.statistics.drift import Drift
from pytest_infranoise.statistics.intervals import Rate
from pytest_infranoise.statistics.paired import Paired
from pytest_infranoise.statistics.spread import Spread
from pytest_infranoise.statistics.trend import Trend

ANALYSIS_SCHEMA_VERSION = 2


def analysis_to_json(analysis: Analysis) -> dict[str, Any]:
    """Return exact builtins: proportions, None where undefined, never NaN or infinity."""
    values: dict[str, Any] = _finite(
        {
            "schema_version": ANALYSIS_SCHEMA_VERSION,
            "alpha": analysis.settings.alpha,
            "margin": analysis.settings.margin,
            "fit_only": analysis.settings.fit_only,
            "baseline": analysis.baseline,
            "n_tasks": analysis.n_tasks,
            "n_trials": analysis.n_trials,
            "samples": list(analysis.samples),
            "later_attempts": analysis.later_attempts,
            "duplicates": analysis.duplicates,
            "not_compared": list(analysis.not_compared),
            "parameter_sets": [_set(item) for item in analysis.sets],
            "comparisons": [_comparison(item) for item in analysis.comparisons],
            "control": None if analysis.control is None else _comparison(analysis.control),
            "trend": {name.value: _trend(item) for name, item in analysis.trend.items()},
            "spread": {name.value: _spread(item) for name, item in analysis.spread.items()},
            "drift": {name.value: _drift(item) for name, item in analysis.drift.items()},
            "noise_band": _noise_band(analysis),
            "recommendation": _recommendation(analysis),
            "article_choice": analysis.article_choice,
            "undecided": list(analysis.undecided),
            "answer": answer_lines(analysis),
        }
    )
    return values


def _finite(value: Any) -> Any:
    """Return builtins only, with None for anything that is not a finite number."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _set(item: SetResult) -> dict[str, Any]:
    return {
        "id": item.id,
        "is_baseline": item.is_baseline,
        "is_control": item.is_control,
        "n_tasks": item.n_tasks,
        "n_trials": item.n_trials,
        "samples": list(item.samples),
        "outcomes": {outcome.value: count for outcome, count in item.outcomes.items()},
        "oom_ended_phase": item.oom_ended_phase,
        "timeouts_after_kill": item.timeouts_after_kill,
        "timeouts_throttled": item.timeouts_throttled,
        "kills": {
            "number": item.kills.number,
            "tasks": item.kills.tasks,
            "trials": item.kills.trials,
            "unknown_trials": item.kills.unknown_trials,
            "foreign_trials": item.kills.foreign_trials,
        },
        "success": _rate(item.success),
        "infra_error": _rate(item.infra_error),
        "agent_failure": _rate(item.agent_failure),
        "oom_ended_phase_rate": _rate(item.ended_phase),
        "success_excluding_infra": item.success_excluding_infra,
    }


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "value": rate.macro,
        "micro": rate.micro,
        "events": rate.events,
        "trials": rate.n_trials,
        "ci95": list(rate.ci95),
        "n_eff": rate.n_eff,
        "deff": rate.deff,
        "icc": rate.icc,
        "se_task": rate.se_task,
        "se_fixed": rate.se_fixed,
        "assumes_independence": rate.assumes_independence,
    }


def _comparison(item: Comparison) -> dict[str, Any]:
    return {
        "parameter_set": item.parameter_set,
        "baseline": item.baseline,
        "n_common": item.n_common,
        "n_dropped": item.n_dropped,
        "host_memory": item.host_memory,
        "measures": {contrast.measure.value: _contrast(contrast) for contrast in item.measures},
        "moved": {kind.value: list(names) for kind, names in item.movement.tasks.items()},
        "gain_beyond_repair": _gain(item.agent_failure),
        "moved_beyond_chance": [
            {
                "task": shift.task,
                "difference": shift.difference,
                "p_value": shift.p_value,
                "q_value": shift.q_value,
            }
            for shift in item.movement.significant
        ],
        "cmh": None
        if item.cmh is None
        else {"statistic": item.cmh.statistic, "p_value": item.cmh.p_value},
    }


def _gain(agent_failure: MeasureContrast) -> dict[str, Any] | None:
    """Lift less the fall of infra errors, which is how far agent failures fell."""
    if agent_failure.difference is None or agent_failure.ci90 is None:
        return None
    return {
        "value": -agent_failure.difference,
        "lower95": -agent_failure.ci90[1],
        "upper95": -agent_failure.ci90[0],
    }


def _contrast(item: MeasureContrast) -> dict[str, Any]:
    return {
        "n_tasks": item.n_tasks,
        "n_differing": item.n_differing,
        "baseline_value": item.baseline_value,
        "value": item.value,
        "difference": item.difference,
        "se": item.se,
        "se_plain": item.se_plain,
        "se_floor": item.se_floor,
        "df": item.df,
        "ci95": item.ci95,
        "ci90": item.ci90,
        "p_value": item.p_value,
        "p_adjusted": item.p_adjusted,
        "is_tested": item.is_tested,
        "p_tost": item.p_tost,
        "p_smallest": item.smallest_p,
        "equivalent": item.equivalent,
        "detectable": item.detectable,
        "within_control": item.within_control,
        "mde80": item.mde80,
        "bound_shown": item.bound_shown,
        "samples_needed": item.samples_needed,
        "method": item.method,
        "status": item.status.value,
        "tasks_like_these": None if item.like_these is None else _paired(item.like_these),
    }


def _paired(item: Paired) -> dict[str, Any]:
    """The generalisation: sign-flip test, t interval over tasks."""
    return {
        "se": None if item.se is None else item.se.value,
        "ci95": item.ci95,
        "p_value": item.p_value,
        "p_t": item.p_t,
    }


def _trend(item: Trend) -> dict[str, Any]:
    slope = item.slope
    return {
        "n_sets": item.n_sets,
        "n_tasks": slope.n_tasks,
        "slope": slope.difference,
        "se": None if slope.se is None else slope.se.value,
        "ci95": slope.ci95,
        "p_value": slope.p_value,
        "p_t": slope.p_t,
    }


def _spread(item: Spread) -> dict[str, Any]:
    return {
        "n_sets": item.n_sets,
        "n_tasks": item.n_tasks,
        "spread": item.spread,
        "null_mean": item.null_mean,
        "null_95": item.null_95,
        "p_value": item.p_value,
        "method": item.method,
    }


def _drift(item: Drift) -> dict[str, Any]:
    return {
        "n_tasks": item.n_tasks,
        "n_blocks": item.n_blocks,
        "starts": item.starts,
        "deviations": item.deviations,
        "p_value": item.p_value,
        "method": item.method,
    }


def _noise_band(analysis: Analysis) -> dict[str, Any]:
    band = analysis.noise_band
    spread = analysis.spread.get(Measure.SUCCESS)
    return {
        "rerun": band.rerun,
        "sampling_se": band.sampling,
        "declared": _band(band.declared),
        "extremes": _band(band.extremes),
        "spread": None if spread is None else _spread(spread),
        "control": None if band.control is None else _contrast(band.control),
    }


def _band(band: DeclaredBand | None) -> dict[str, Any] | None:
    if band is None:
        return None
    return {
        "floor": band.floor,
        "ceiling": band.ceiling,
        "difference": band.contrast.difference,
        "ci95": band.contrast.ci95,
        "p_value": band.contrast.p_value,
    }


def _recommendation(analysis: Analysis) -> dict[str, Any]:
    item = analysis.recommendation
    return {
        "status": item.status.value,
        "parameter_set": item.parameter_set,
        "why": item.why,
        "candidate": item.candidate,
        "ceiling": item.ceiling,
        "infra_reduced": list(item.infra_reduced),
        "repairs": list(item.repairs),
        "neutral": list(item.neutral),
        "eased": list(item.eased),
        "notes": list(item.notes),
    }
