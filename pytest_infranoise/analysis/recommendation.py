"""The kill threshold to recommend, with its reasons."""

from collections.abc import Mapping, Sequence

from pytest_infranoise.analysis.ladder import Ladder
from pytest_infranoise.analysis.results import (
    Comparison,
    Measure,
    MeasureContrast,
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


_WHY = {
    RecommendationStatus.RECOMMENDED: "removes crashes, and success stays within the margin",
    RecommendationStatus.REPAIRS: "removes crashes and adds less than the margin beyond them",
    RecommendationStatus.EASED: "success rose by more than the repair of crashes explains",
    RecommendationStatus.PROVISIONAL: "removes crashes; what else it does is not yet bounded",
    RecommendationStatus.NO_INFRA_SIGNAL: "no multiplier shows fewer infra errors beyond chance",
    RecommendationStatus.INCONCLUSIVE: "neither a repair nor its absence is shown",
}


def recommend(
    ladder: Ladder,
    ceiling: str | None,
    results: Sequence[SetResult],
    comparisons: Sequence[Comparison],
    settings: AnalysisSettings,
) -> Recommendation:
    """Apply the rule of docs/statistics.md to the sets above the baseline.

    `ceiling` is the declared set whose bounds are tested first.
    """
    reason = _not_applicable(ladder, comparisons, settings)
    if reason is not None:
        return Recommendation(RecommendationStatus.NOT_APPLICABLE, None, reason, ceiling=ceiling)
    if settings.fit_only:
        return Recommendation(
            RecommendationStatus.FIT_ONLY,
            None,
            "shows whether the reference solution fits; says nothing about a model's score",
            ceiling=ceiling,
        )
    infra = {item.id: item.infra_error for item in results}
    steps = []
    by_name = {item.parameter_set: item for item in comparisons}
    for name in ladder.above:
        rate = infra[name]
        if name in by_name and rate is not None:
            item = by_name[name]
            steps.append(
                step_of(
                    name,
                    {contrast.measure: contrast for contrast in item.measures},
                    infra_rate=rate.macro,
                    candidate=name in ladder.candidates,
                    margin=settings.margin,
                    host_memory=item.host_memory,
                )
            )
    choice = choose(steps, ceiling=ceiling, tie=settings.tie)
    notes = _notes(choice, [by_name[step.id] for step in steps], settings)
    return _settled(choice, ceiling, notes, settings)


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


def step_of(
    name: str,
    contrasts: Mapping[Measure, MeasureContrast],
    *,
    infra_rate: float,
    candidate: bool,
    margin: float,
    host_memory: bool = False,
) -> Step:
    """Return what the rule sees of one set: its three contrasts against the baseline."""
    success, infra = contrasts[Measure.SUCCESS], contrasts[Measure.INFRA_ERROR]
    agent = contrasts[Measure.AGENT_FAILURE]
    # Gain beyond repair is how far agent failures fell; its bounds are one-sided 95 %.
    gain = None if agent.ci90 is None else (-agent.ci90[1], -agent.ci90[0])
    return Step(
        id=name,
        candidate=candidate,
        infra_rate=infra_rate,
        reduced=infra.detectable and (infra.difference or 0.0) < 0,
        bounded=gain is not None and gain[1] < margin,
        gains=gain is not None and gain[0] > 0,
        neutral=success.equivalent,
        rose=success.detectable and (success.difference or 0.0) > 0,
        fell=success.detectable and (success.difference or 0.0) < 0,
        host_memory=host_memory,
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


def _settled(
    choice: Choice, ceiling: str | None, notes: tuple[str, ...], settings: AnalysisSettings
) -> Recommendation:
    status, why = choice.status, _WHY[choice.status]
    claims = status in (
        RecommendationStatus.RECOMMENDED,
        RecommendationStatus.REPAIRS,
        RecommendationStatus.PROVISIONAL,
    )
    chosen = choice.chosen if claims else None
    if claims and not settings.engine_is_isolating and not settings.accept_engine:
        engine = settings.engine or "an engine that does not isolate"
        why = f"{chosen} would be {status}, but it was measured by {engine}; accept that by name"
        status, chosen = RecommendationStatus.WITHHELD, None
    return Recommendation(
        status=status,
        parameter_set=chosen,
        why=why,
        candidate=choice.chosen,
        ceiling=ceiling,
        infra_reduced=choice.infra_reduced,
        repairs=choice.repairs,
        neutral=choice.neutral,
        eased=choice.eased,
        notes=notes,
    )
