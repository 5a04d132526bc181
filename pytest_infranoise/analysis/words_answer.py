"""The answer in four lines: threshold, score, noise, next. A reader who stops there has it.

No statistics vocabulary beyond "p", "points" and "95%"; each line is complete by itself.
"""

from pytest_infranoise.analysis.figures import at, p_value, percent, plural, points, span
from pytest_infranoise.analysis.results import (
    Analysis,
    Comparison,
    DeclaredBand,
    MeasureContrast,
    SetResult,
    Status,
)
from pytest_infranoise.analysis.words_contrasts import no_result, unreachable
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.statistics.recommend import RecommendationStatus

FIT_ONLY = "fit only: shows whether the reference solution fits; says nothing about a model's score"
EMPTY = "no trial has an outcome: nothing to analyse"


def answer_lines(analysis: Analysis) -> list[str]:
    """Return the lines threshold, score, noise and next; those that have nothing to say are out."""
    if analysis.n_trials == 0:
        return [EMPTY]
    following = next_step(analysis)
    return [
        threshold_line(analysis),
        _score_line(analysis),
        *_noise_lines(analysis),
        *([f"next: {following}"] if following else []),
    ]


def threshold_line(analysis: Analysis) -> str:
    """Return what to set as the kill threshold, and what shows it."""
    if analysis.n_trials == 0:
        return EMPTY
    what = _what_is_set(analysis)
    return f"{what}: {_fallen(analysis)}{_threshold(analysis, what)}"


def _what_is_set(analysis: Analysis) -> str:
    """Return what a recommendation would set, by the dimension that was varied."""
    dimension = None if analysis.ladder is None else analysis.ladder.dimension
    return {"cpu": "CPU limit", "timeout": "deadline"}.get(dimension or "", "threshold")


def _fallen(analysis: Analysis) -> str:
    if not analysis.fallen or analysis.settings.fit_only:
        return ""
    falls = [
        f"{at(item.parameter_set)} ({points(item.success.difference or 0.0)} points, "
        f"{p_value(item.success.p_value or 0.0)})"
        for item in analysis.comparisons
        if item.parameter_set in analysis.fallen
    ]
    return f"success fell {', '.join(falls)}; "


def _threshold(analysis: Analysis, what: str) -> str:
    found = analysis.recommendation
    match found.status:
        case RecommendationStatus.FIT_ONLY:
            return FIT_ONLY
        case RecommendationStatus.NOT_APPLICABLE:
            return f"none named: {found.why}"
        case RecommendationStatus.NO_INFRA_SIGNAL:
            return _without_signal(analysis)
        case RecommendationStatus.INCONCLUSIVE:
            return _inconclusive(analysis)
    item = analysis.comparison(str(found.candidate))
    match found.status:
        case RecommendationStatus.RECOMMENDED:
            return _recommended(item, analysis, what) + _easier_above(analysis)
        case RecommendationStatus.REPAIRS:
            return _repairs(item, analysis, what) + _easier_above(analysis)
        case RecommendationStatus.EASED:
            return _eased(item)
        case RecommendationStatus.PROVISIONAL:
            return _provisional(item, what)
        case _:
            return f"withheld: {found.why}"


def _recommended(item: Comparison, analysis: Analysis, what: str) -> str:
    return (
        f"set the {_kill(what)} at {item.parameter_set}: it removes crashes ({_crashes(item)}), "
        f"and scores at {item.baseline} and {item.parameter_set} are within "
        f"{_margin(analysis)} (the article's rule)"
    )


def _repairs(item: Comparison, analysis: Analysis, what: str) -> str:
    rise = item.success.difference or 0.0
    text = (
        f"set the {_kill(what)} at {item.parameter_set}: it removes crashes ({_crashes(item)}) and "
        f"adds {_at_most(_gain(item)[1])} beyond them"
    )
    if item.success.detectable and rise > 0:
        return (
            f"{text}; the score itself rises by {points(rise)}: {item.baseline} under-measures "
            "this agent, the declared memory of these tasks is too small"
        )
    return f"{text}; the score itself moves by {points(rise)} ({_interval(item.success)})"


def _at_most(gain: float) -> str:
    return f"at most {points(gain)} points" if round(gain, 3) > 0 else "nothing"


def _eased(item: Comparison) -> str:
    return (
        f"none to set: more resources make the tasks easier from {item.parameter_set} on; success "
        f"{points(item.success.difference or 0.0)} points, at least {points(_gain(item)[0])} of "
        "them beyond the repair of crashes"
    )


def _easier_above(analysis: Analysis) -> str:
    """Say so where more resources than what is to be set make the tasks easier."""
    if not analysis.recommendation.eased:
        return ""
    first = analysis.recommendation.eased[0]
    least = points(_gain(analysis.comparison(first))[0])
    return f"; {first} makes the tasks easier, by at least {least} points beyond repair"


def _provisional(item: Comparison, what: str) -> str:
    return (
        f"provisionally {item.parameter_set} as the {_kill(what)}: it removes crashes "
        f"({_crashes(item)}); not yet shown is that it does nothing else: beyond repair at most "
        f"{points(_gain(item)[1])} points, success {_interval(item.success)}"
    )


def _without_signal(analysis: Analysis) -> str:
    base = next(item for item in analysis.sets if item.is_baseline)
    settings = analysis.settings
    if base.infra_error is not None and base.infra_error.events == 0:
        upper = percent(base.infra_error.ci95[1])
        if base.kills.number:
            return (
                f"no trial at {base.id} was lost to its {plural(base.kills.number, 'kill')}, yet "
                "memory runs short there"
            )
        return (
            f"nothing needs repair at {base.id}: no infra error in {base.n_trials} trials "
            f"(95% CI up to {upper})"
        )
    counted = f"{percent(base.infra_error.macro)} infra errors" if base.infra_error else ""
    text = f"none to set: {counted} at {base.id}, and no set shows fewer beyond chance"
    first = analysis.comparisons[-1].infra_error
    if unreachable(first, settings):
        return f"{text}; {no_result(settings)}"
    if first.mde80 is not None:
        return f"{text}; a fall of {100 * first.mde80:.1f} points would be found in 8 of 10 studies"
    return text


def _inconclusive(analysis: Analysis) -> str:
    host = [item.parameter_set for item in analysis.comparisons if item.host_memory]
    if host:
        return (
            "inconclusive: trials were killed by the host's own memory or an unknown hand, which "
            f"says nothing about {', '.join(host)}"
        )
    reduced = ", ".join(analysis.recommendation.infra_reduced)
    return f"inconclusive: crashes are fewer at {reduced}, but nothing there can be set"


def _kill(what: str) -> str:
    return "kill threshold" if what == "threshold" else what


def _crashes(item: Comparison) -> str:
    infra = item.infra_error
    return (
        f"infra errors {percent(infra.baseline_value or 0.0)} at {item.baseline}, "
        f"{percent(infra.value or 0.0)} {at(item.parameter_set)}, {p_value(infra.p_value or 0.0)}"
    )


def _gain(item: Comparison) -> tuple[float, float]:
    """Return the one-sided bounds of the gain beyond repair: how far agent failures fell."""
    low, high = item.agent_failure.ci90 or (-1.0, 1.0)
    return max(-1.0, -high), min(1.0, -low)


def _interval(contrast: MeasureContrast) -> str:
    return "unknown" if contrast.ci95 is None else f"{span(contrast.ci95)} points, 95% CI"


def _margin(analysis: Analysis) -> str:
    return f"+-{100 * analysis.settings.margin:.3g} points"


def _score_line(analysis: Analysis) -> str:
    """Return the score at the baseline, at the declared ceiling and uncapped."""
    base = next((item for item in analysis.sets if item.is_baseline), analysis.sets[0])
    parts = [_score_of(base)]
    chosen = _shown(analysis)
    parts += [_moved_score(item) for item in analysis.comparisons if item.parameter_set in chosen]
    return "score: " + "; ".join(parts)


def _shown(analysis: Analysis) -> set[str]:
    """Return the sets that the first lines speak of: what is set, the ceiling, and the top."""
    found = analysis.recommendation
    names = {found.candidate, found.ceiling}
    if analysis.comparisons:
        names.add(analysis.comparisons[-1].parameter_set)
    return {name for name in names if name is not None}


def _score_of(item: SetResult) -> str:
    if item.success is None:
        return f"no trial {at(item.id)}"
    return f"success {percent(item.success.macro)} {at(item.id)}"


def _moved_score(item: Comparison) -> str:
    success = item.success
    if success.value is None or success.difference is None:
        return f"no task ran both at {item.baseline} and {at(item.parameter_set)}"
    text = f"{percent(success.value)} {at(item.parameter_set)}: {points(success.difference)} points"
    if success.status is Status.FIT_ONLY:
        return text
    if success.ci95 is not None:
        text += f" (95% CI {span(success.ci95)})"
    if success.p_value is not None:
        text += f", {p_value(success.p_value)}"
    if success.status is Status.ONE_TASK:
        return text + ", this task only"
    return text + (", equal within the margin" if success.status is Status.EQUIVALENT else "")


def _noise_lines(analysis: Analysis) -> list[str]:
    if analysis.settings.fit_only:
        return []
    band = analysis.noise_band
    parts = []
    if band.rerun is not None and round(band.rerun, 3) > 0:
        parts.append(
            f"run again, the score at {analysis.baseline} moves by up to "
            f"+-{100 * band.rerun:.1f} points (95%) by chance alone"
        )
    parts += [
        f"{'and' if position else 'infrastructure'} from {part.floor} to {part.ceiling} moves it "
        f"by {points(part.contrast.difference or 0.0)} ({_interval(part.contrast)})"
        for position, part in enumerate(_bands(analysis))
    ]
    if not parts:
        return []
    return [f"noise: {', '.join(parts)}; infranoise compare holds a lead against both"]


def _bands(analysis: Analysis) -> list[DeclaredBand]:
    band = analysis.noise_band
    found = []
    for part in (band.declared, band.extremes):
        known = part is not None and part.contrast.ci95 is not None
        if part is not None and known and part not in found:
            found.append(part)
    return found


def next_step(analysis: Analysis) -> str | None:
    """Return what to run next, None where nothing follows."""
    match analysis.recommendation.status:
        case RecommendationStatus.RECOMMENDED:
            return (
                "repeat with another agent before publishing it for a benchmark; infranoise "
                "calibrate says what each task needs"
            )
        case RecommendationStatus.REPAIRS:
            return (
                "infranoise calibrate says by how much each task's memory is too small; declare "
                "that, and measure the score again"
            )
        case RecommendationStatus.EASED:
            return _timeouts_fell(analysis) or (
                "decide which resources the benchmark allows, and declare them; scores from "
                "different multipliers are not comparable"
            )
        case RecommendationStatus.PROVISIONAL:
            return _more_samples(analysis)
        case RecommendationStatus.FIT_ONLY:
            return "run an agent (--infra-agent) with --infra-samples=5 or more"
        case RecommendationStatus.WITHHELD:
            return "repeat on an engine that enforces limits in a container"
        case RecommendationStatus.NO_INFRA_SIGNAL:
            return _timeouts_fell(analysis) or _after_no_signal(analysis)
        case RecommendationStatus.INCONCLUSIVE:
            if any(item.host_memory for item in analysis.comparisons):
                return "repeat the study without what ended its trials from outside"
            return "look at the tasks that pass less often (-v names them) before anything is set"
        case _:
            return None


def _more_samples(analysis: Analysis) -> str:
    """Return how many samples would bound what is open, if that is more than ran."""
    found = analysis.recommendation
    item = analysis.comparison(str(found.ceiling or found.candidate))
    needed = item.agent_failure.samples_needed
    if needed is not None:
        return (
            f"--infra-samples={needed} would show whether {item.parameter_set} does more than "
            f"repair, within {_margin(analysis)}"
        )
    if analysis.samples[1] == 1:
        return "run --infra-samples=5 or more: one sample cannot tell how a task varies"
    return (
        "the estimates themselves, not their noise, lie near the margin: infranoise plan prices a "
        "larger study"
    )


def _timeouts_fell(analysis: Analysis) -> str | None:
    """Say so where timeouts fell beyond chance: a limit may be the cause."""
    falling = [
        item
        for item in analysis.comparisons
        if (item.timeout.p_value or 0.0) < analysis.settings.alpha
        and (item.timeout.difference or 0.0) < 0
    ]
    if not falling or analysis.settings.timeouts_are_infra:
        return None
    base = next(item for item in analysis.sets if item.is_baseline)
    fewest = min(analysis.set(item.parameter_set).outcomes[Outcome.TIMEOUT] for item in falling)
    return (
        f"timeouts fell from {base.outcomes[Outcome.TIMEOUT]} at {base.id} to {fewest}, and a "
        "limit may be the cause: report with --timeouts-are-infra to count them"
    )


def _after_no_signal(analysis: Analysis) -> str:
    base = next(item for item in analysis.sets if item.is_baseline)
    if base.infra_error is not None and base.infra_error.events == 0:
        if base.kills.number:
            return "infranoise calibrate says what each task needs"
        return "nothing: publish the declared resources as they are, as guarantee and threshold"
    return "run more samples or tasks: infranoise plan --from says how many find what"
