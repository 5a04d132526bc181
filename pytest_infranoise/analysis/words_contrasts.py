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

MEASURE_NAMES = {
    Measure.SUCCESS: "success",
    Measure.INFRA_ERROR: "infra errors",
    Measure.AGENT_FAILURE: "agent failures",
    Measure.OOM: "oom",
    Measure.TIMEOUT: "timeouts",
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
    return lines


def dropped_line(item: Comparison) -> str:
    """Return how many tasks a comparison had to leave out."""
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
    if len(analysis.comparisons) > 1:
        text += adjusted_words(contrast, analysis)
    return (
        f"{text}, {plural(contrast.n_tasks, 'task')} x {_samples(analysis)}, paired by task"
        f"{_within_control(contrast)}"
    )


def adjusted_words(contrast: MeasureContrast, analysis: Analysis) -> str:
    """Return what a p-value is worth among those of the other sets, in parentheses."""
    if contrast.p_adjusted is None:
        return ""
    if not contrast.is_tested:
        return " (not tested: the sequence ended above)"
    ladder = analysis.ladder
    how = "in sequence" if ladder is not None and ladder.is_ordered else "Holm"
    return f" ({bare_p(contrast.p_adjusted)} {how})"


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
    parts = []
    if contrast.ci90 is not None:
        parts.append(f"the data allow {span(contrast.ci90)} points")
    if unreachable(contrast, settings):
        parts.append(no_result(settings))
    elif contrast.mde80 is not None and _is_first(contrast, analysis):
        parts.append(f"this design detects >= {100 * contrast.mde80:.1f} points")
    if contrast.samples_needed is not None:
        needed = plural(contrast.samples_needed, "sample")
        parts.append(f"{_margin(settings)} needs about {needed} per task")
    return "inconclusive: " + "; ".join(parts)


def unreachable(contrast: MeasureContrast, settings: AnalysisSettings) -> bool:
    """Whether even the most extreme result would not have been significant."""
    return contrast.smallest_p is not None and contrast.smallest_p >= settings.alpha_difference


def no_result(settings: AnalysisSettings) -> str:
    """Return the words for a design that can show nothing."""
    return f"no result could reach p < {settings.alpha_difference:.2g} here: more trials are needed"


def _is_first(contrast: MeasureContrast, analysis: Analysis) -> bool:
    """Whether it is the contrast that the sequence tested first."""
    return bool(analysis.comparisons) and contrast is analysis.comparisons[-1].success


def _margin(settings: AnalysisSettings) -> str:
    return f"+-{100 * settings.margin:.3g} points"


def movement_lines(
    item: Comparison, *, all_names: bool = False, records_kills: bool = True
) -> list[str]:
    """Return which tasks moved between the baseline and a set, and how.

    Tasks are named only where the move is beyond chance (or all of them on request): with few
    samples chance alone moves many tasks.
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
    source = item.movement.tasks if all_names else item.movement.named
    lines = [
        f"{shift}: {plural(len(names), 'task')} {text}: {listed(names)}"
        for shift, text in words.items()
        if (names := source.get(shift, ()))
    ]
    return lines + (_moved_beyond_chance(item) if all_names else [])


def _moved_beyond_chance(item: Comparison) -> list[str]:
    moved = item.movement.significant
    if moved:
        names = tuple(f"{shift.task} ({points(shift.difference)})" for shift in moved)
        return [
            f"moved beyond chance {at(item.parameter_set)} (Fisher within the task, "
            f"Benjamini-Hochberg within the contrast): {listed(names)}"
        ]
    return []


def movement_counts(item: Comparison) -> str | None:
    """Return in one line how many tasks moved, and which of them beyond chance."""
    moved, named = item.movement.tasks, item.movement.named
    parts = []
    for shift in (Shift.RESCUED, Shift.DOOMED, Shift.RECOVERED, Shift.EASED, Shift.WORSENED):
        if not (names := moved.get(shift, ())):
            continue
        sure = named.get(shift, ())
        parts.append(f"{len(names)} {shift}" + (f" ({listed(sure, 4)})" if sure else ""))
    return f"{item.parameter_set}: {', '.join(parts)}" if parts else None


def timeout_lines(analysis: Analysis) -> list[str]:
    """Return the timeouts of which a limit may be the cause, where they changed beyond chance."""
    lines: list[str] = []
    alpha = analysis.settings.alpha
    if all((item.timeout.p_value or 0.0) >= alpha for item in analysis.comparisons):
        return lines
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
