"""Which multiplier to set as the kill threshold: the rule of docs/statistics.md."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum


class RecommendationStatus(StrEnum):
    """What the rule found; docs/gates.md says which of them a gate may accept."""

    RECOMMENDED = "recommended"
    REPAIRS = "repairs"
    EASED = "eased"
    PROVISIONAL = "provisional"
    NO_INFRA_SIGNAL = "no_infra_signal"
    INCONCLUSIVE = "inconclusive"
    FIT_ONLY = "fit_only"
    WITHHELD = "withheld"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Step:
    """One multiplier above the baseline, as the rule sees it.

    `candidate` is False for uncapped, which is never set. `reduced`, `rose` and `fell` are what the
    tests in sequence show of infra errors and of success. `bounded` says that the gain beyond
    repair is shown to be below the margin, `gains` that it is shown to be above zero, `neutral`
    that success is shown equivalent. `host_memory` says that the host's own memory killed trials
    here, so that nothing follows.
    """

    id: str
    candidate: bool
    infra_rate: float
    reduced: bool = False
    bounded: bool = False
    gains: bool = False
    neutral: bool = False
    rose: bool = False
    fell: bool = False
    host_memory: bool = False


@dataclass(frozen=True, slots=True)
class PooledStep:
    """One finite multiplier with unpaired, uncorrected p-values of pooled trials."""

    id: str
    infra_rate: float
    infra_difference: float
    infra_p: float
    success_p: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The rule's answer; the ids are in ascending order of the multiplier.

    `chosen` is the multiplier to set, or the best candidate of a provisional answer; where it is
    `eased` it is the lowest from which on tasks become easier. `neutral` may hold uncapped.
    """

    status: RecommendationStatus
    chosen: str | None
    infra_reduced: tuple[str, ...]
    repairs: tuple[str, ...]
    neutral: tuple[str, ...]
    eased: tuple[str, ...]


def choose(steps: Sequence[Step], *, ceiling: str | None, tie: float) -> Choice:
    """Apply the rule to the multipliers above the baseline, in ascending order.

    `ceiling` is the declared one, whose bounds are tested first; None declares none.
    """
    ids = [step.id for step in steps]
    sound = [step for step in steps if not step.host_memory]
    bounded = covered(ids, {step.id for step in sound if step.bounded}, ceiling)
    neutral = covered(ids, {step.id for step in sound if step.neutral}, ceiling)
    reduced = [step for step in sound if step.reduced]
    repairs = [
        step
        for step in reduced
        if step.candidate and step.id in bounded and (not step.fell or step.id in neutral)
    ]
    eased = _eased(steps)
    status, chosen = _status(steps, repairs, eased, reduced, neutral, tie)
    return Choice(
        status,
        chosen,
        tuple(step.id for step in reduced),
        tuple(step.id for step in repairs),
        neutral,
        eased,
    )


def _status(
    steps: Sequence[Step],
    repairs: Sequence[Step],
    eased: Sequence[str],
    reduced: Sequence[Step],
    neutral: Sequence[str],
    tie: float,
) -> tuple[RecommendationStatus, str | None]:
    if repairs:
        chosen = _smallest_of_best(repairs, tie).id
        is_neutral = chosen in neutral
        return (
            RecommendationStatus.RECOMMENDED if is_neutral else RecommendationStatus.REPAIRS,
            chosen,
        )
    if eased:
        return RecommendationStatus.EASED, eased[0]
    candidates = [step for step in reduced if step.candidate and not step.fell]
    if candidates:
        return RecommendationStatus.PROVISIONAL, _smallest_of_best(candidates, tie).id
    if not reduced and not any(step.host_memory for step in steps):
        return RecommendationStatus.NO_INFRA_SIGNAL, None
    return RecommendationStatus.INCONCLUSIVE, None


def article_style(steps: Sequence[PooledStep], *, alpha: float) -> str | None:
    """Return what a rule of pooled tests would choose, as a sensitivity line beside ours.

    It takes trials as independent and "p >= alpha" as "unchanged", which a small study passes
    easily: the candidate with the lowest infra error rate whose infra errors fell with p < alpha
    and whose success has p >= alpha.
    """
    chosen = [
        step
        for step in steps
        if step.infra_difference < 0 and step.infra_p < alpha and step.success_p >= alpha
    ]
    return min(chosen, key=lambda step: step.infra_rate).id if chosen else None


def covered(ids: Sequence[str], holding: Collection[str], ceiling: str | None) -> tuple[str, ...]:
    """Return the sets that a bound at the ceiling covers, and those above it up to a failure.

    The ceiling is tested first; one order, fixed before the study, needs no correction. What is
    bounded there is bounded below it, where fewer resources can ease less.

    Args:
        ids: The sets above the baseline, ascending.
        holding: Those whose own bound holds.
        ceiling: The declared ceiling.
    """
    if ceiling not in ids or ceiling not in holding:
        return ()
    end = ids.index(ceiling)
    while end < len(ids) and ids[end] in holding:
        end += 1
    return tuple(ids[:end])


def _eased(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the steps that ease tasks, tested from the top down to the first that does not."""
    found: list[str] = []
    for step in reversed(steps):
        if not (step.rose and step.gains) or step.host_memory:
            break
        found.insert(0, step.id)
    return tuple(found)


def _smallest_of_best(steps: Sequence[Step], tie: float) -> Step:
    lowest = min(step.infra_rate for step in steps)
    # The slack keeps rates that differ by exactly `tie` on paper from being split by rounding.
    return next(step for step in steps if step.infra_rate <= lowest + tie + 1e-12)
