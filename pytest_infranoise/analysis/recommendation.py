"""The kill threshold to recommend, with its reasons."""

from collections.abc import Sequence

from pytest_infranoise.analysis.ladder import Ladder
from pytest_infranoise.analysis.results import (
    Comparison,
    Recommendation,
    SetResult,
    Status,
)
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.statistics.intervals import Rate
from pytest_infranoise.statistics.recommend import (
    Choice,
    PooledStep,
    RecommendationStatus,
    Step,
    article_style,
    choose,
)
from pytest_infranoise.statistics.tables import two_proportions

NOT_KILLS = "not explained by kills: see causes"
KILLS_UNKNOWN = "memory kills are not recorded in these results, so no threshold can be named"
HOST_MEMORY = (
    "trials were killed by the host's own memory or an unknown hand, so {sets} against the "
    "baseline stays inconclusive"
)


def recommend(
    ladder: Ladder,
    results: Sequence[SetResult],
    comparisons: Sequence[Comparison],
    settings: AnalysisSettings,
) -> Recommendation:
    """Apply the rule of docs/statistics.md to the sets above the baseline."""
    reason = _not_applicable(ladder, comparisons, settings)
    if reason is not None:
        return Recommendation(RecommendationStatus.NOT_APPLICABLE, None, reason)
    if settings.fit_only:
        return Recommendation(
            RecommendationStatus.FIT_ONLY,
            None,
            "shows whether the reference solution fits; says nothing about a model's score",
        )
    infra = {item.id: item.infra_error for item in results}
    steps = []
    by_name = {item.parameter_set: item for item in comparisons}
    for name in ladder.above:
        rate = infra[name]
        if name in by_name and rate is not None:
            steps.append(_step(by_name[name], rate.macro, name in ladder.candidates))
    choice = choose(
        steps, alpha=settings.alpha_difference, margin=settings.margin, tie=settings.tie
    )
    notes = _notes(choice, [by_name[step.id] for step in steps], settings)
    return _worded(choice, ladder, notes, settings)


def article_choice(
    ladder: Ladder, results: Sequence[SetResult], settings: AnalysisSettings
) -> str | None:
    """Return what pooled tests would choose (see `article_style`), None if nothing."""
    by_name = {item.id: item for item in results}
    base = by_name[ladder.baseline]
    if base.infra_error is None or base.success is None:
        return None
    steps = []
    for name in ladder.candidates:
        infra, success = by_name[name].infra_error, by_name[name].success
        if infra is not None and success is not None:
            steps.append(
                PooledStep(
                    id=name,
                    infra_rate=infra.micro,
                    infra_difference=infra.micro - base.infra_error.micro,
                    infra_p=_pooled_p(base.infra_error, infra),
                    success_p=_pooled_p(base.success, success),
                )
            )
    return article_style(steps, alpha=settings.alpha)


def _pooled_p(a: Rate, b: Rate) -> float:
    return two_proportions(a.events, a.n_trials, b.events, b.n_trials)


def _not_applicable(
    ladder: Ladder, comparisons: Sequence[Comparison], settings: AnalysisSettings
) -> str | None:
    if not settings.records_kills:
        return KILLS_UNKNOWN
    if ladder.problem is not None:
        return ladder.problem
    above = [item for item in comparisons if item.parameter_set in ladder.above]
    if not above:
        return "no multiplier above the baseline ran"
    if not ladder.candidates:
        return "no finite multiplier above the baseline ran, and uncapped is no threshold"
    if all(item.success.status is Status.NO_COMMON_TASK for item in above):
        return "no task ran both at the baseline and above it"
    if all(item.success.n_tasks < 2 for item in above):
        return "one task is too few for a recommendation"
    return None


def _step(item: Comparison, infra_rate: float, candidate: bool) -> Step:
    success, infra = item.success, item.infra_error
    untested = success.p_holm is None or infra.p_holm is None
    return Step(
        id=item.parameter_set,
        candidate=candidate,
        infra_rate=infra_rate,
        infra_difference=infra.difference or 0.0,
        infra_p_holm=1.0 if infra.p_holm is None else infra.p_holm,
        success_difference=success.difference or 0.0,
        success_p=0.0 if untested or success.p_value is None else success.p_value,
        equivalent=success.equivalent,
        host_memory=item.host_memory,
    )


def _notes(
    choice: Choice, comparisons: Sequence[Comparison], settings: AnalysisSettings
) -> tuple[str, ...]:
    notes = []
    for item in comparisons:
        fell = (item.oom.difference or 0.0) < 0 and (item.oom.p_value or 0.0) < settings.alpha
        if item.parameter_set in choice.infra_reduced and not fell and NOT_KILLS not in notes:
            notes.append(NOT_KILLS)
    hosts = [item.parameter_set for item in comparisons if item.host_memory]
    if hosts:
        notes.append(HOST_MEMORY.format(sets=", ".join(hosts)))
    return tuple(notes)


def _worded(
    choice: Choice, ladder: Ladder, notes: tuple[str, ...], settings: AnalysisSettings
) -> Recommendation:
    status, chosen, why = choice.status, choice.chosen, _why(choice, ladder, settings)
    if chosen is not None and not settings.engine_is_isolating and not settings.accept_engine:
        engine = settings.engine or "an engine that does not isolate"
        why = f"{chosen} would be {status}, but it was measured by {engine}; accept that by name"
        status, chosen = RecommendationStatus.WITHHELD, None
    return Recommendation(
        status=status,
        parameter_set=chosen,
        why=why,
        candidate=choice.chosen,
        admissible=choice.admissible,
        infra_reduced=choice.infra_reduced,
        notes=notes,
    )


def _why(choice: Choice, ladder: Ladder, settings: AnalysisSettings) -> str:
    margin = f"+-{settings.margin * 100:.3g} points"
    base = ladder.baseline
    match choice.status:
        case RecommendationStatus.RECOMMENDED:
            return (
                f"fewer infra errors than at {base}, and success equivalent within {margin} "
                "there and at every multiplier below"
            )
        case RecommendationStatus.PROVISIONAL:
            return (
                f"fewer infra errors than at {base}, and no sign of a change in success beyond "
                f"{margin}, but equivalence is not shown"
            )
        case RecommendationStatus.NO_INFRA_SIGNAL:
            return f"no multiplier shows fewer infra errors than {base} beyond chance"
        case _ if not choice.infra_reduced:
            return "trials were killed from outside, so the contrasts are inconclusive"
        case _:
            return (
                f"infra errors fell at {', '.join(choice.infra_reduced)}, but success is not "
                f"shown to stay within {margin} of {base} up to there"
            )
