"""The sentences of a verdict: what the data show, and never more.

Every function returns plain text and takes nothing but results. The words that may be used, and
those that may not, are in docs/statistics.md.
"""

from collections.abc import Iterator

from pytest_infranoise.analysis.figures import (
    at,
    percent,
    plural,
    points,
)
from pytest_infranoise.analysis.ladder import JOINT
from pytest_infranoise.analysis.results import (
    Analysis,
    SetResult,
    Status,
)
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.words_contrasts import (
    comparison_lines,
    control_lines,
    drift_lines,
    movement_lines,
    spread_lines,
    timeout_lines,
)
from pytest_infranoise.analysis.words_detail import methods, sensitivity
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.statistics.recommend import RecommendationStatus

FIT_ONLY = "fit only: shows whether the reference solution fits; says nothing about a model's score"


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
    lines = [kill_line(analysis), *_foreign_kills(analysis), *_nothing_passed(analysis)]
    if analysis.settings.fit_only:
        lines.append(FIT_ONLY)
    if verbosity >= 0:
        lines += _findings(analysis, with_contrasts, all_names=verbosity >= 1)
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
    where = at(item.id)
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


def _nothing_passed(analysis: Analysis) -> Iterator[str]:
    """A study in which nothing passes measures a broken agent, image or test."""
    if not any(item.outcomes[Outcome.PASSED] for item in analysis.sets):
        yield (
            "no trial passed in any set: look at the agent and the tests before reading anything "
            "into this"
        )


def _findings(analysis: Analysis, with_contrasts: bool, *, all_names: bool) -> list[str]:
    lines: list[str] = []
    if analysis.control is not None:
        lines += control_lines(analysis.control)
    for item in analysis.comparisons:
        lines += comparison_lines(item, analysis, with_figures=with_contrasts)
    for item in analysis.comparisons:
        known = analysis.settings.records_kills
        lines += movement_lines(item, all_names=all_names, records_kills=known)
    lines += timeout_lines(analysis)
    if not analysis.settings.fit_only:  # copies of one solution do not vary by chance
        lines += spread_lines(analysis)
        lines += drift_lines(analysis)
    return lines


def recommendation_lines(analysis: Analysis) -> list[str]:
    """Return what to set as kill threshold, how sure that is, and what to run next."""
    item = analysis.recommendation
    limit = _what_is_set(analysis)
    match item.status:
        case RecommendationStatus.RECOMMENDED:
            head = f"recommended {limit}: {item.parameter_set} of the declared spec"
        case RecommendationStatus.PROVISIONAL:
            head = f"provisional {limit}: {item.parameter_set} of the declared spec"
        case RecommendationStatus.NO_INFRA_SIGNAL:
            head = f"no {limit} above {analysis.baseline} is supported"
        case RecommendationStatus.INCONCLUSIVE:
            head = f"no {limit} recommended: inconclusive"
        case RecommendationStatus.WITHHELD:
            head = "recommendation withheld"
        case _:
            head = "no recommendation"
    # That the reference solution shows nothing more stands at the head of the verdict.
    lines = [] if item.status is RecommendationStatus.FIT_ONLY else [f"{head}: {item.why}"]
    lines += [f"note: {note}" for note in item.notes]
    following = next_step(analysis)
    return [*lines, f"next: {following}"] if following else lines


def _what_is_set(analysis: Analysis) -> str:
    """Return what a recommendation would set, by the dimension that was varied."""
    dimension = None if analysis.ladder is None else analysis.ladder.dimension
    return {"cpu": "CPU limit", "timeout": "deadline"}.get(dimension or "", "kill threshold")


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
    fewest = min(item.outcomes[Outcome.TIMEOUT] for item in analysis.sets)
    if fewest < base.outcomes[Outcome.TIMEOUT] and not analysis.settings.timeouts_are_infra:
        return (
            f"timeouts fell from {base.outcomes[Outcome.TIMEOUT]} at {base.id} to {fewest}, and a "
            "limit may stand behind them: report with --timeouts-are-infra to count them"
        )
    if base.infra_error is not None and base.infra_error.events == 0:
        upper = percent(base.infra_error.ci95[1])
        if base.kills.number:
            return (
                f"no trial at {base.id} was lost to its {plural(base.kills.number, 'kill')}, yet "
                "memory runs short there: infranoise calibrate says what each task needs"
            )
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


def _repaired(analysis: Analysis) -> str | None:
    """Say so where a higher success is nothing but crashes that no longer happen."""
    for item in analysis.comparisons:
        risen = item.success.status is Status.HIGHER and item.infra_error.detectable
        if risen and item.agent_failure.equivalent:
            return (
                f"at {item.parameter_set} success rose by {points(item.success.difference or 0.0)} "
                f"points while agent failures stayed equal: {item.baseline} under-measures this "
                f"agent by its kills; declare {item.parameter_set} as the spec, and compare "
                f"further multipliers with --baseline {item.parameter_set}"
            )
    return None


def _more_data(analysis: Analysis) -> str:
    repaired = _repaired(analysis)
    if repaired is not None:
        return repaired
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
    engine = analysis.settings.engine
    measured = f"; measured by {engine}" if engine else ""
    lines = [f"applies to this agent, task set and host{measured}; {order}"]
    lines += _unequal_samples(analysis)
    ladder = analysis.ladder
    if ladder is not None and ladder.dimension == JOINT and len(analysis.sets) > 1:
        lines.append("memory and CPU scaled together; this study cannot separate them")
    if analysis.not_compared:
        lines.append(
            f"limits equal to {analysis.baseline}'s, so not compared: "
            + ", ".join(analysis.not_compared)
        )
    return lines + _look_lines(analysis.settings)


def _unequal_samples(analysis: Analysis) -> list[str]:
    unequal = [item for item in analysis.sets if item.samples[0] != item.samples[1]]
    means = ", ".join(
        f"{percent(item.success.micro)} at {item.id}" for item in unequal if item.success
    )
    if not means:
        return []
    return [f"samples per task differ; success as the mean over trials: {means}"]


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
