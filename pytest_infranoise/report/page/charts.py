"""The figures of the charts: rates over the sets, and lift against the margin."""

from collections.abc import Callable, Sequence

from pytest_infranoise.analysis import Analysis, Comparison, MeasureContrast, SetResult
from pytest_infranoise.analysis.figures import at, percent, points, span
from pytest_infranoise.analysis.ladder import BY_NAME, JOINT, known_sets
from pytest_infranoise.analysis.words_contrasts import status_line
from pytest_infranoise.model.resources import ParameterSet
from pytest_infranoise.report.page.model import Effect, Estimate, LiftChart, RateChart
from pytest_infranoise.report.tables import per_cent_span
from pytest_infranoise.statistics.intervals import Rate


def success_chart(analysis: Analysis, sets: Sequence[ParameterSet]) -> RateChart | None:
    """Return success over the parameter sets; None where no set has a rate."""
    return _rate_chart(analysis, sets, "Success rate", lambda item: item.success)


def infra_error_chart(analysis: Analysis, sets: Sequence[ParameterSet]) -> RateChart | None:
    """Return infra errors (oom and infra together) over the sets; None where none has a rate."""
    title = "Infra error rate"
    if not analysis.settings.records_kills:
        title += ", kills unknown"
    return _rate_chart(analysis, sets, title, lambda item: item.infra_error)


def _rate_chart(
    analysis: Analysis,
    sets: Sequence[ParameterSet],
    title: str,
    rate_of: Callable[[SetResult], Rate | None],
) -> RateChart | None:
    order = _ascending(analysis, sets)
    results = analysis.sets if order is None else [analysis.set(name) for name in order]
    estimates = tuple(_estimate(item, rate_of(item)) for item in results)
    if all(item.value is None for item in estimates):
        return None
    said = "; ".join(f"{item.words} {at(item.label)}" for item in estimates)
    return RateChart(title, estimates, order is not None, f"{title} with 95% intervals: {said}.")


def _ascending(analysis: Analysis, sets: Sequence[ParameterSet]) -> list[str] | None:
    """Return the sets by growing limits where one dimension grows; None where none does."""
    ladder = analysis.ladder
    ids = [item.id for item in analysis.sets]
    known = known_sets(ids, sets)
    if ladder is None or ladder.dimension in (None, BY_NAME) or len(known) < len(ids):
        return None
    dimension = "memory" if ladder.dimension == JOINT else str(ladder.dimension)
    line = sorted(known, key=lambda item: getattr(item, dimension).sort_key)
    others = [name for name in ("memory", "cpu", "timeout") if name != dimension]
    is_one_line = ladder.dimension == JOINT or all(
        len({getattr(item, name) for item in known}) == 1 for name in others
    )
    return [item.id for item in line] if is_one_line else None


def _estimate(item: SetResult, rate: Rate | None) -> Estimate:
    if rate is None:
        return Estimate(item.id, None, None, "no trial", "", item.is_control)
    shown = percent(rate.macro)
    words = f"{shown} {per_cent_span(rate.ci95)}"
    return Estimate(item.id, rate.macro, rate.ci95, words, shown, item.is_control)


def lift_chart(analysis: Analysis) -> LiftChart | None:
    """Return the lift of every set; None where nothing is compared."""
    baseline, margin = analysis.baseline, analysis.settings.margin
    compared = list(analysis.comparisons)
    if analysis.control is not None:
        compared.insert(0, analysis.control)
    if baseline is None or all(item.success.difference is None for item in compared):
        return None
    effects = tuple(_effect(item, analysis) for item in compared)
    said = "; ".join(f"{item.label}: {item.words}" for item in effects)
    shown = f"+-{100 * margin:.3g} points"
    return LiftChart(
        f"Lift over {baseline}",
        baseline,
        margin,
        effects,
        f"Success minus success at {baseline}, in points, beside the margin of {shown}. {said}.",
        f"Shaded: the margin of {shown}. A set whose thick 90% interval lies inside it is "
        "equivalent; the thin line is the 95% interval.",
    )


def _effect(item: Comparison, analysis: Analysis) -> Effect:
    lift: MeasureContrast = item.success
    is_control = analysis.control is not None and item is analysis.control
    verdict = "A/A control, nothing changed" if is_control else status_line(lift, item, analysis)
    return Effect(
        item.parameter_set, lift.difference, lift.ci90, lift.ci95, f"{_figures(lift)}{verdict}"
    )


def _figures(lift: MeasureContrast) -> str:
    if lift.difference is None:
        return ""
    interval = "" if lift.ci95 is None else f" (95% CI {span(lift.ci95)})"
    return f"{points(lift.difference)} points{interval}, "
