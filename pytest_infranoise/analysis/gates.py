"""Gates: what a study must show, judged from the analysis that its summary prints."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_infranoise.analysis.figures import at, percent, plural, points, span
from pytest_infranoise.analysis.gate_grammar import Gate, KnownSets, Measured
from pytest_infranoise.analysis.results import (
    Analysis,
    MeasureContrast,
    SetResult,
    Status,
)
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.statistics.equivalence import p_tost
from pytest_infranoise.statistics.intervals import Rate
from pytest_infranoise.statistics.recommend import RecommendationStatus
from pytest_infranoise.statistics.these_tasks import interval

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_SLACK = 1e-12
"""A rate that equals a limit on paper is not on the wrong side of it by rounding."""


class GateVerdict(StrEnum):
    """What became of a gate; only `passed` lets a session succeed."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate, its verdict and the figures behind it in words."""

    gate: Gate
    verdict: GateVerdict
    reason: str


def known_sets_of(analysis: Analysis) -> KnownSets:
    """Return the parameter sets that a gate on this analysis may name."""
    return KnownSets([item.id for item in analysis.sets], analysis.baseline)


def judge(analysis: Analysis, gates: Sequence[Gate], *, missing: int = 0) -> tuple[GateResult, ...]:
    """Judge each gate.

    Args:
        analysis: The analysis of the study's summary.
        gates: What must hold.
        missing: How many of the selected trials have no record; with any, no gate can pass.
    """
    results = []
    for gate in gates:
        verdict, reason = _judge(analysis, gate)
        result = GateResult(gate, verdict, reason)
        if missing and verdict is GateVerdict.PASSED:
            reason = f"{plural(missing, 'selected trial')} without a record; so far {reason}"
            result = replace(result, verdict=GateVerdict.UNDECIDED, reason=reason)
        if result.verdict is GateVerdict.PASSED and _rests_on_kills(analysis, gate):
            reason = f"{reason}; but memory kills are not recorded as such in these results"
            result = replace(result, verdict=GateVerdict.UNDECIDED, reason=reason)
        results.append(result)
    return tuple(results)


def _rests_on_kills(analysis: Analysis, gate: Gate) -> bool:
    """Whether a rate would be another one if kills had been told from failures."""
    by_kills = (Measured.INFRA_ERROR, Measured.AGENT_FAILURE)
    return not analysis.settings.records_kills and gate.measured in by_kills


def _judge(analysis: Analysis, gate: Gate) -> tuple[GateVerdict, str]:
    if analysis.n_trials == 0:
        return GateVerdict.UNDECIDED, "no trial has an outcome"
    match gate.measured:
        case Measured.NEUTRAL:
            return _neutral(analysis, gate)
        case Measured.RECOMMENDED | Measured.REPAIRS | Measured.PROVISIONAL:
            return _verdict(analysis, gate)
        case Measured.LIFT:
            return _lift(analysis, gate)
        case Measured.NO_OOM | Measured.NO_KILL:
            return _in_sets(analysis, gate, _no_kill)
        case _:
            return _in_sets(analysis, gate, _rate)


def _in_sets(
    analysis: Analysis,
    gate: Gate,
    judge_one: Callable[[SetResult, Gate], tuple[GateVerdict, str]],
) -> tuple[GateVerdict, str]:
    """Judge the set that the gate names, or all: the worst verdict decides, with its reasons."""
    chosen = [item for item in analysis.sets if gate.parameter_set in (None, item.id)]
    results = [judge_one(item, gate) for item in chosen]
    for worst in (GateVerdict.FAILED, GateVerdict.UNDECIDED, GateVerdict.PASSED):
        reasons = [reason for verdict, reason in results if verdict is worst]
        if reasons:
            return worst, "; ".join(reasons)
    return GateVerdict.UNDECIDED, f"no trial ran {at(gate.parameter_set or 'in any set')}"


def _rate(item: SetResult, gate: Gate) -> tuple[GateVerdict, str]:
    rate: Rate | None = {
        Measured.SUCCESS: item.success,
        Measured.INFRA_ERROR: item.infra_error,
        Measured.AGENT_FAILURE: item.agent_failure,
    }[gate.measured]
    if rate is None:
        return GateVerdict.UNDECIDED, f"no trial ran {at(item.id)}"
    low, high = rate.ci95
    value = {"lower": low, "upper": high}.get(gate.end or "", rate.macro)
    words = (
        f"{percent(rate.macro)} {at(item.id)} (95% CI {100 * low:.1f} to {100 * high:.1f}), "
        f"{plural(rate.n_trials, 'trial')}"
    )
    return _compared(value, gate), words


def _compared(value: float, gate: Gate) -> GateVerdict:
    assert gate.limit is not None
    assert gate.comparison is not None
    if abs(value - gate.limit) <= _SLACK:
        value = gate.limit
    holds = _COMPARE[gate.comparison](value, gate.limit)
    return GateVerdict.PASSED if holds else GateVerdict.FAILED


def _no_kill(item: SetResult, gate: Gate) -> tuple[GateVerdict, str]:
    kills, where = item.kills, at(item.id)
    if item.n_trials == 0:
        return GateVerdict.UNDECIDED, f"no trial ran {where}"
    if gate.measured is Measured.NO_OOM:
        number, what = item.outcomes.get(Outcome.OOM, 0), "oom"
    else:
        number, what = kills.number, "kills"
    counted = f"{number or 'no'} {what} {where} in {plural(item.n_trials, 'trial')}"
    if number:
        return GateVerdict.FAILED, counted
    if kills.unknown_trials:
        unknown = plural(kills.unknown_trials, "trial")
        return GateVerdict.UNDECIDED, f"{counted}, but kills of {unknown} could not be counted"
    return GateVerdict.PASSED, counted


def _lift(analysis: Analysis, gate: Gate) -> tuple[GateVerdict, str]:
    name = gate.parameter_set or ""
    candidates = [*analysis.comparisons]
    if analysis.control is not None:
        candidates.append(analysis.control)
    found = [item for item in candidates if item.parameter_set == name]
    if not found:
        return GateVerdict.UNDECIDED, f"{name} was not compared with {analysis.baseline}"
    comparison, contrast = found[0], found[0].success
    if contrast.difference is None:
        return GateVerdict.UNDECIDED, f"no task ran both at {analysis.baseline} and {at(name)}"
    words = _lift_words(contrast, name)
    reason = _lift_unusable(contrast, host_memory=comparison.host_memory)
    if reason is not None:
        return GateVerdict.UNDECIDED, f"{words}; {reason}"
    if gate.margin is not None:
        return _equivalent(analysis, contrast, gate), words
    ends = contrast.ci95
    if gate.end is not None and ends is None:
        return GateVerdict.UNDECIDED, f"{words}; one task has no interval"
    value = contrast.difference
    if gate.end is not None and ends is not None:
        value = ends[gate.end == "upper"]
    return _compared(value, gate), words


def _lift_words(contrast: MeasureContrast, name: str) -> str:
    words = f"{points(contrast.difference or 0.0)} points {at(name)}"
    if contrast.ci90 is not None and contrast.ci95 is not None:
        words += f" (90% CI {span(contrast.ci90)}, 95% CI {span(contrast.ci95)})"
    return f"{words}, {plural(contrast.n_tasks, 'task')}"


def _lift_unusable(contrast: MeasureContrast, *, host_memory: bool) -> str | None:
    if contrast.status is Status.FIT_ONLY:
        return "the reference solution says nothing about a model's score"
    if host_memory:
        return "trials were killed by the host's own memory or an unknown hand"
    return None


def _equivalent(analysis: Analysis, contrast: MeasureContrast, gate: Gate) -> GateVerdict:
    """Judge whether the lift is shown to lie in limit +- margin, or shown not to."""
    assert contrast.difference is not None
    assert gate.limit is not None
    assert gate.margin is not None
    if contrast.se is None or contrast.df is None:
        return GateVerdict.UNDECIDED
    settings, df = analysis.settings, contrast.df
    away = contrast.difference - gate.limit
    if p_tost(away, contrast.se, df, gate.margin) < settings.alpha_equivalence:
        return GateVerdict.PASSED
    low, high = interval(away, contrast.se, df, 1 - settings.alpha_difference)
    outside = low > gate.margin or high < -gate.margin
    return GateVerdict.FAILED if outside else GateVerdict.UNDECIDED


_ACCEPTED = {
    Measured.RECOMMENDED: (RecommendationStatus.RECOMMENDED,),
    Measured.REPAIRS: (RecommendationStatus.RECOMMENDED, RecommendationStatus.REPAIRS),
    Measured.PROVISIONAL: (
        RecommendationStatus.RECOMMENDED,
        RecommendationStatus.REPAIRS,
        RecommendationStatus.PROVISIONAL,
    ),
}
"""The verdicts that satisfy a gate: one that shows more satisfies a gate that asks for less."""


def _verdict(analysis: Analysis, gate: Gate) -> tuple[GateVerdict, str]:
    found = analysis.recommendation
    status = str(found.status).replace("_", " ")
    if found.status is RecommendationStatus.NO_INFRA_SIGNAL:
        return GateVerdict.FAILED, f"{status}: {found.why}"
    if found.status not in _ACCEPTED[gate.measured] or found.parameter_set is None:
        return GateVerdict.UNDECIDED, f"{status}: {found.why}"
    reason = f"{status}: {found.parameter_set} {found.why}"
    if gate.parameter_set is None:
        return GateVerdict.PASSED, reason
    holds = found.parameter_set in _allowed(analysis, gate)
    return GateVerdict.PASSED if holds else GateVerdict.FAILED, reason


def _allowed(analysis: Analysis, gate: Gate) -> set[str]:
    order = () if analysis.ladder is None else analysis.ladder.above
    name = str(gate.parameter_set)
    if gate.comparison == "<=" and name in order:
        return set(order[: order.index(name) + 1])
    return {name}


def _neutral(analysis: Analysis, gate: Gate) -> tuple[GateVerdict, str]:
    """Judge whether success is shown equivalent up to a set, or up to the declared ceiling."""
    found = analysis.recommendation
    name = gate.parameter_set or found.ceiling
    if found.status is RecommendationStatus.FIT_ONLY or name is None:
        return GateVerdict.UNDECIDED, found.why
    item = next((item for item in analysis.comparisons if item.parameter_set == name), None)
    if item is None:
        return GateVerdict.UNDECIDED, f"{name} was not compared with {analysis.baseline}"
    words = _lift_words(item.success, name)
    if name in found.neutral and analysis.settings.engine_is_isolating:
        return GateVerdict.PASSED, words
    return GateVerdict.UNDECIDED, words
