"""The sentences of a verdict: what the data show, and never more.

Every function returns plain text and takes nothing but results. The words that may be used, and
those that may not, are in docs/statistics.md.
"""

from collections.abc import Iterator

from pytest_infranoise.analysis.figures import (
    bare_p,
    listed,
    p_value,
    percent,
    plural,
    points,
    span,
)
from pytest_infranoise.analysis.ladder import JOINT
from pytest_infranoise.analysis.results import (
    Analysis,
    Comparison,
    Measure,
    MeasureContrast,
    SetResult,
    Shift,
    Status,
)
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.words_detail import methods, sensitivity
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.statistics.recommend import RecommendationStatus
from pytest_infranoise.statistics.signflip import tasks_needed

FIT_ONLY = "fit only: shows whether the reference solution fits; says nothing about a model's score"

_NAMES = {
    Measure.SUCCESS: "success",
    Measure.INFRA_ERROR: "infra errors",
    Measure.AGENT_FAILURE: "agent failures",
    Measure.OOM: "oom",
}


def verdict_lines(
    analysis: Analysis, *, verbosity: int = 0, with_contrasts: bool = True
) -> list[str]:
    """Return the verdict, one sentence per line.

    Args:
        analysis: What to put into words.
        verbosity: Below 0 kills and recommendation only, 1 with sensitivity lines, 2 with every
            method, n and correction.
        with_contrasts: Whether to repeat the figures of every contrast; False where a table
            beside the verdict holds them.
    """
    if analysis.n_trials == 0:
        return ["no trial has an outcome: nothing to analyse"]
    lines = [kill_line(analysis), *_foreign_kills(analysis)]
    if analysis.settings.fit_only:
        lines.append(FIT_ONLY)
    if verbosity >= 0:
        lines += _findings(analysis, with_contrasts)
    lines += recommendation_lines(analysis)
    if verbosity >= 0:
        lines += scope_lines(analysis)
    if verbosity >= 1:
        lines += sensitivity(analysis)
    if verbosity >= 2:
        lines += methods(analysis)
    return lines


def kill_line(analysis: Analysis) -> str:
    """Return how often the kernel killed at the threshold in each set: counted, not inferred."""
    ran = [item for item in analysis.sets if item.n_trials]
    if all(not item.kills.number and item.kills.unknown_trials == item.n_trials for item in ran):
        return "kills: not counted in any set"
    parts = [_kills_of(item, first=position == 0) for position, item in enumerate(ran)]
    return "kills: " + ", ".join(parts)


def _kills_of(item: SetResult, *, first: bool) -> str:
    kills = item.kills
    where = "uncapped" if item.id == "uncapped" else f"at {item.id}"
    unknown = kills.unknown_trials
    if kills.number == 0:
        if unknown == item.n_trials:
            return f"not counted {where}"
        known = f"none {where}"
        return f"{known} ({plural(unknown, 'trial')} not counted)" if unknown else known
    least = "at least " if unknown else ""
    noun = f" {'kill' if kills.number == 1 else 'kills'}" if first else ""
    return f"{least}{kills.number}{noun} {where} in {plural(kills.tasks, 'task')}"


def _foreign_kills(analysis: Analysis) -> Iterator[str]:
    foreign = [item for item in analysis.sets if item.kills.foreign_trials]
    if foreign:
        counted = ", ".join(f"{item.kills.foreign_trials} at {item.id}" for item in foreign)
        yield (
            f"trials killed by the host's own memory or an unknown hand: {counted}; they are infra "
            "errors, never evidence about a kill threshold"
        )


def _findings(analysis: Analysis, with_contrasts: bool) -> list[str]:
    lines: list[str] = []
    if analysis.control is not None:
        lines += control_lines(analysis.control)
    for item in analysis.comparisons:
        lines += comparison_lines(item, analysis, with_figures=with_contrasts)
    for item in analysis.comparisons:
        lines += movement_lines(item)
    lines += timeout_lines(analysis)
    lines += spread_lines(analysis)
    lines += drift_lines(analysis)
    return lines


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
    lines.append(f"{item.parameter_set}: {status_line(item.success, item, analysis)}")
    infra = item.infra_error
    if with_figures and infra.difference is not None:
        lines.append(contrast_line(infra, item, analysis))
    if infra.detectable and not analysis.settings.fit_only:
        direction = "lower" if (infra.difference or 0.0) < 0 else "higher"
        lines.append(
            f"{item.parameter_set}: infra errors {direction} than at {item.baseline}"
            + _within_control(infra)
        )
    agent = item.agent_failure
    if agent.difference is not None and agent.p_holm is not None and agent.detectable:
        lines.append(
            f"{item.parameter_set}: beyond the repair of crashes, agent failures moved by "
            f"{points(agent.difference)} points, {p_value(agent.p_value or 0.0)}"
        )
    if item.n_dropped:
        lines.append(
            f"{item.parameter_set}: paired on {plural(item.n_common, 'task')}; "
            f"{item.n_dropped} ran in one of the two sets only and are left out"
        )
    return lines


def contrast_line(contrast: MeasureContrast, item: Comparison, analysis: Analysis) -> str:
    """Return one contrast with every figure: rates, difference, interval, p, n and K."""
    name = _NAMES[contrast.measure]
    other = item.parameter_set
    if contrast.difference is None or contrast.value is None or contrast.baseline_value is None:
        return f"{name}: no task ran in both {item.baseline} and {other}"
    where = other if other == "uncapped" else f"at {other}"
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


def movement_lines(item: Comparison) -> list[str]:
    """Return which tasks moved between the baseline and a set, and how, by name."""
    base, other = item.baseline, item.parameter_set
    words = {
        Shift.RESCUED: f"killed at {base}, passing more often at {other}",
        Shift.DOOMED: f"killed less at {other} than at {base}, but passing no more often",
        Shift.EASED: f"passing more often at {other} without fewer kills",
        Shift.RECOVERED: f"fewer other infra errors and passing more often at {other}",
        Shift.WORSENED: f"passing less often at {other} than at {base}",
    }
    lines = []
    for shift, text in words.items():
        names = item.movement.tasks.get(shift, ())
        if names:
            lines.append(f"{shift}: {plural(len(names), 'task')} {text}: {listed(names)}")
    moved = item.movement.significant
    if moved:
        names = tuple(f"{shift.task} ({points(shift.difference)})" for shift in moved)
        lines.append(
            f"moved beyond chance at {other} (Fisher within the task, Benjamini-Hochberg): "
            + listed(names)
        )
    return lines


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
            width = max(drift.deviations) - min(drift.deviations)
            lines.append(
                f"{_NAMES[measure]} drifted while the study ran, by {100 * width:.1f} points "
                f"between its best and worst fifth ({p_value(drift.p_value)}, blocks permuted "
                "within tasks)"
            )
    return lines


def recommendation_lines(analysis: Analysis) -> list[str]:
    """Return what to set as kill threshold, how sure that is, and what to run next."""
    item = analysis.recommendation
    match item.status:
        case RecommendationStatus.RECOMMENDED:
            head = f"recommended kill threshold: {item.parameter_set} of the declared spec"
        case RecommendationStatus.PROVISIONAL:
            head = f"provisional kill threshold: {item.parameter_set} of the declared spec"
        case RecommendationStatus.NO_INFRA_SIGNAL:
            head = f"no kill threshold above {analysis.baseline} is supported"
        case RecommendationStatus.INCONCLUSIVE:
            head = "no kill threshold recommended: inconclusive"
        case RecommendationStatus.WITHHELD:
            head = "recommendation withheld"
        case _:
            head = "no recommendation"
    engine = analysis.settings.engine
    measured = f" (measured by {engine})" if engine and item.parameter_set is not None else ""
    lines = [f"{head}: {item.why}{measured}"]
    lines += [f"note: {note}" for note in item.notes]
    following = next_step(analysis)
    return [*lines, f"next: {following}"] if following else lines


def next_step(analysis: Analysis) -> str | None:
    """Return what to run next, None where nothing follows."""
    match analysis.recommendation.status:
        case RecommendationStatus.RECOMMENDED:
            return "repeat with another agent before publishing it for a benchmark"
        case RecommendationStatus.FIT_ONLY:
            return "run an agent (--infra-agent) with --infra-samples=5 or more"
        case RecommendationStatus.WITHHELD:
            return "repeat on an engine that enforces limits in a container"
        case RecommendationStatus.NOT_APPLICABLE:
            return None
        case RecommendationStatus.NO_INFRA_SIGNAL:
            return _without_signal(analysis)
        case _:
            return _more_data(analysis)


def _without_signal(analysis: Analysis) -> str | None:
    base = next(item for item in analysis.sets if item.is_baseline)
    if base.infra_error is not None and base.infra_error.events == 0:
        upper = percent(base.infra_error.ci95[1])
        return (
            f"nothing needs repair at {base.id}: no infra error in {base.n_trials} trials "
            f"(95% CI up to {upper})"
        )
    effects = [
        item.infra_error.mde80
        for item in analysis.comparisons
        if item.infra_error.mde80 is not None
    ]
    if not effects:
        return None
    least = f"{100 * min(effects):.1f} points"
    return f"add tasks or samples: this design detects infra errors falling by >= {least}"


def _more_data(analysis: Analysis) -> str:
    ladder = analysis.ladder
    above = () if ladder is None else ladder.candidates
    open_ones = [
        item.success
        for item in analysis.comparisons
        if item.parameter_set in above and item.success.status is Status.INCONCLUSIVE
    ]
    if not open_ones:
        return "add multipliers between the baseline and the first that changes success"
    needed = [item.samples_needed for item in open_ones]
    if any(value is None for value in needed):
        return "add tasks: more samples of these cannot settle it"
    most = max(value for value in needed if value is not None)
    if most <= analysis.samples[0]:
        return "add tasks or samples: the difference lies near the margin"
    return f"--infra-samples={most} would settle it if the sets are equal"


def scope_lines(analysis: Analysis) -> list[str]:
    """Return what the verdict applies to, and what this study cannot tell."""
    order = {
        True: "sets were interleaved",
        False: "sets were run one after another, so time of day is mixed up with them",
        None: "the order of the sets is unknown",
    }[analysis.settings.interleaved]
    lines = [f"applies to this agent, task set and host; {order}"]
    ladder = analysis.ladder
    if ladder is not None and ladder.dimension == JOINT and len(analysis.sets) > 1:
        lines.append("memory and CPU scaled together; this study cannot separate them")
    if analysis.not_compared:
        lines.append(
            f"limits equal to {analysis.baseline}'s, so not compared: "
            + ", ".join(analysis.not_compared)
        )
    return lines + _look_lines(analysis.settings)


def _look_lines(settings: AnalysisSettings) -> list[str]:
    lines = []
    if settings.look is not None:
        look = settings.look
        lines.append(
            f"planned look {look.number} of {look.of} at {look.samples} of {look.max_samples} "
            f"samples: different at p < {look.level_difference:.2g}, equivalent at "
            f"p < {look.level_equivalence:.2g} (O'Brien-Fleming type spending)"
        )
    if settings.unplanned_looks:
        times = settings.unplanned_looks
        often = "once" if times == 1 else f"{times} times"
        lines.append(f"analysed {often} while growing; p-values are nominal")
    return lines
