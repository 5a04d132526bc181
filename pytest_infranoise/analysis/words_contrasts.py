"""The sentences about contrasts and movements: what each set shows against the baseline."""

from pytest_infranoise.analysis.figures import (
    at,
    bare_p,
    listed,
    p_value,
    percent,
    plural,
    points,
    span,
)
from pytest_infranoise.analysis.results import (
    Analysis,
    Comparison,
    Measure,
    MeasureContrast,
    Shift,
    Status,
)
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.statistics.signflip import tasks_needed

_NAMED_AT_MOST = 8

MEASURE_NAMES = {
    Measure.SUCCESS: "success",
    Measure.INFRA_ERROR: "infra errors",
    Measure.AGENT_FAILURE: "agent failures",
    Measure.OOM: "oom",
}


def control_lines(control: Comparison) -> list[str]:
    """Return the A/A contrast: how far apart identical sets came out."""
    success = control.success
    if success.difference is None:
        return [f"A/A control {control.parameter_set}: no task ran in both"]
    text = f"A/A control: {control.parameter_set} minus {control.baseline}, nothing changed: "
    text += f"success {points(success.difference)} points"
    if success.ci95 is not None:
        text += f" (95% CI {span(success.ci95)})"
    return [text]


def comparison_lines(item: Comparison, analysis: Analysis, *, with_figures: bool) -> list[str]:
    """Return what one set shows against the baseline: success, infra errors, agent failures."""
    lines = []
    if with_figures:
        lines.append(contrast_line(item.success, item, analysis))
    if item.success.status is not Status.FIT_ONLY:
        lines.append(f"{item.parameter_set}: {status_line(item.success, item, analysis)}")
    infra = item.infra_error
    if with_figures and infra.difference is not None:
        lines.append(contrast_line(infra, item, analysis))
    if infra.detectable and infra.status is not Status.FIT_ONLY and not item.host_memory:
        direction = "lower" if (infra.difference or 0.0) < 0 else "higher"
        lines.append(
            f"{item.parameter_set}: infra errors {direction} than at {item.baseline}"
            + _within_control(infra)
        )
    agent = item.agent_failure
    repaired = analysis.settings.records_kills and not item.host_memory
    if agent.difference is not None and agent.detectable and repaired:
        lines.append(
            f"{item.parameter_set}: beyond the repair of crashes, agent failures moved by "
            f"{points(agent.difference)} points, {p_value(agent.p_value or 0.0)}"
        )
    if item.n_dropped:
        lines.append(_dropped(item))
    return lines


def _dropped(item: Comparison) -> str:
    text = (
        f"{item.parameter_set}: {item.n_dropped} of {item.n_common + item.n_dropped} tasks ran in "
        "one of the two sets only and are left out"
    )
    before, after = item.success.baseline_value, item.success.value
    if before is None or after is None:
        return text
    return (
        f"{text}; success on the common ones {percent(before)} at {item.baseline}, {percent(after)}"
    )


def contrast_line(contrast: MeasureContrast, item: Comparison, analysis: Analysis) -> str:
    """Return one contrast with every figure: rates, difference, interval, p, n and K."""
    name = MEASURE_NAMES[contrast.measure]
    other = item.parameter_set
    if contrast.difference is None or contrast.value is None or contrast.baseline_value is None:
        return f"{name}: no task ran in both {item.baseline} and {other}"
    where = at(other)
    text = (
        f"{name} {percent(contrast.baseline_value)} at {item.baseline}, "
        f"{percent(contrast.value)} {where}: {points(contrast.difference)} points"
    )
    if contrast.ci95 is not None:
        text += f" (95% CI {span(contrast.ci95)})"
    if contrast.p_value is not None:
        text += f", {p_value(contrast.p_value)}"
    if contrast.method == "fisher_one_task":
        return f"{text} (Fisher), this task only"
    if contrast.p_holm is not None and len(analysis.comparisons) > 1:
        text += f" (Holm {bare_p(contrast.p_holm)})"
    return (
        f"{text}, {plural(contrast.n_tasks, 'task')} x {_samples(analysis)}, paired by task"
        f"{_within_control(contrast)}"
    )


def _samples(analysis: Analysis) -> str:
    low, high = analysis.samples
    return plural(high, "sample") if low == high else f"{low} to {high} samples"


def _within_control(contrast: MeasureContrast) -> str:
    return "; no larger than the A/A contrast" if contrast.within_control else ""


def status_line(contrast: MeasureContrast, item: Comparison, analysis: Analysis) -> str:
    """Return what a contrast of success shows, in words."""
    settings, base = analysis.settings, item.baseline
    match contrast.status:
        case Status.NO_COMMON_TASK:
            return f"no task ran both here and at {base}"
        case Status.ONE_TASK:
            return "one task only: no interval and no verdict"
        case Status.FIT_ONLY:
            return "fit only"
        case Status.EQUIVALENT:
            text = f"equivalent to {base} within {_margin(settings)}"
            if contrast.ci90 is not None:
                text += f" (90% CI {span(contrast.ci90)})"
            return text + ("; detectable, but within the margin" if contrast.detectable else "")
        case Status.HIGHER | Status.LOWER:
            return f"{contrast.status} than at {base}{_within_control(contrast)}"
        case _:
            if item.host_memory:
                return (
                    "inconclusive: trials were killed by the host's own memory or an unknown hand"
                )
            return _inconclusive(contrast, analysis)


def _inconclusive(contrast: MeasureContrast, analysis: Analysis) -> str:
    settings = analysis.settings
    needed = tasks_needed(settings.alpha_difference, max(1, len(analysis.comparisons)))
    parts = []
    if contrast.ci90 is not None:
        parts.append(f"the data allow {span(contrast.ci90)} points")
    if contrast.n_differing < needed:
        differ = "differs" if contrast.n_differing == 1 else "differ"
        parts.append(
            f"{plural(contrast.n_differing, 'task')} {differ}: no result could reach "
            f"p < {settings.alpha_difference:.2g} ({needed} are needed)"
        )
    elif contrast.mde80 is not None:
        parts.append(f"this design detects >= {100 * contrast.mde80:.1f} points")
    parts.append(_what_would_settle(contrast, settings))
    return "inconclusive: " + "; ".join(parts)


def _what_would_settle(contrast: MeasureContrast, settings: AnalysisSettings) -> str:
    margin = _margin(settings)
    if contrast.samples_needed is None:
        return f"{margin} needs more tasks, more samples cannot help"
    assumed = contrast.variances is not None and contrast.variances.assumed
    guess = " (trial variance assumed, one sample cannot tell it)" if assumed else ""
    return f"{margin} needs about {plural(contrast.samples_needed, 'sample')} per task{guess}"


def _margin(settings: AnalysisSettings) -> str:
    return f"+-{100 * settings.margin:.3g} points"


def movement_lines(
    item: Comparison, *, all_names: bool = False, records_kills: bool = True
) -> list[str]:
    """Return which tasks moved between the baseline and a set, and how, by name.

    Success that rose or fell without kills is named only where that stays short, or on request:
    with few samples chance alone moves many tasks.
    """
    base, other = item.baseline, at(item.parameter_set)
    kills = "without fewer kills" if records_kills else "(kills are unknown)"
    words = {
        Shift.RESCUED: f"killed at {base}, passing more often {other}",
        Shift.DOOMED: f"killed less {other} than at {base}, but passing no more often",
        Shift.RECOVERED: f"fewer other infra errors and passing more often {other}",
        Shift.EASED: f"passing more often {other} {kills}",
        Shift.WORSENED: f"passing less often {other} than at {base}",
    }
    found = {shift: item.movement.tasks.get(shift, ()) for shift in words}
    by_chance = (Shift.EASED, Shift.WORSENED)
    short = all_names or sum(len(found[shift]) for shift in by_chance) <= _NAMED_AT_MOST
    lines = [
        f"{shift}: {plural(len(names), 'task')} {words[shift]}: {listed(names)}"
        for shift, names in found.items()
        if names and (short or shift not in by_chance)
    ]
    if not short:
        up, down = (len(found[shift]) for shift in by_chance)
        lines.append(
            f"passing more often {other} {kills}: {up}, less often: {down} "
            "(chance moves tasks too; -v names them)"
        )
    return lines + _moved_beyond_chance(item)


def _moved_beyond_chance(item: Comparison) -> list[str]:
    moved = item.movement.significant
    if moved:
        names = tuple(f"{shift.task} ({points(shift.difference)})" for shift in moved)
        return [
            f"moved beyond chance {at(item.parameter_set)} (Fisher within the task, "
            f"Benjamini-Hochberg): {listed(names)}"
        ]
    return []


def timeout_lines(analysis: Analysis) -> list[str]:
    """Return the timeouts that a limit of memory or CPU may stand behind."""
    lines = []
    for item in analysis.sets:
        total = item.outcomes[Outcome.TIMEOUT]
        parts = []
        if item.timeouts_after_kill:
            parts.append(f"{item.timeouts_after_kill} after a kill")
        if item.timeouts_throttled:
            parts.append(f"{item.timeouts_throttled} with the CPU throttled")
        if parts:
            lines.append(f"{plural(total, 'timeout')} at {item.id}: {', '.join(parts)}")
    return lines


def spread_lines(analysis: Analysis) -> list[str]:
    """Return the observed spread of success over the sets beside what chance spreads."""
    spread = analysis.spread.get(Measure.SUCCESS)
    if spread is None or spread.n_sets < 3:
        return []
    return [
        f"spread {100 * spread.spread:.1f} points over {spread.n_sets} sets; identical sets would "
        f"spread up to {100 * spread.null_95:.1f} in 95% of runs ({p_value(spread.p_value)})"
    ]


def drift_lines(analysis: Analysis) -> list[str]:
    """Return a warning if results moved while the study ran."""
    lines = []
    for measure, drift in analysis.drift.items():
        if drift.p_value < analysis.settings.alpha:
            name, width = MEASURE_NAMES[measure], max(drift.deviations) - min(drift.deviations)
            lines.append(
                f"{name} drifted while the study ran, by {100 * width:.1f} points "
                f"between its best and worst fifth ({p_value(drift.p_value)}, blocks permuted "
                "within tasks)"
            )
    return lines
