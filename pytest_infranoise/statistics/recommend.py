"""Which multiplier to recommend as the kill threshold: the rule of docs/statistics.md."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class RecommendationStatus(StrEnum):
    """What the rule found; only `recommended` may satisfy a gate."""

    RECOMMENDED = "recommended"
    PROVISIONAL = "provisional"
    NO_INFRA_SIGNAL = "no_infra_signal"
    INCONCLUSIVE = "inconclusive"
    FIT_ONLY = "fit_only"
    WITHHELD = "withheld"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Step:
    """One multiplier above the baseline, as the rule sees it; rates and differences in [-1, 1].

    `candidate` is False for uncapped, which can show a signal but is never recommended.
    `host_memory` says that the host's own memory killed trials in this contrast, which makes it
    inconclusive.
    """

    id: str
    candidate: bool
    infra_rate: float
    infra_difference: float
    infra_p_holm: float
    success_difference: float
    success_p: float
    equivalent: bool
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
    """The rule's answer; the ids are in ascending order of the multiplier."""

    status: RecommendationStatus
    chosen: str | None
    infra_reduced: tuple[str, ...]
    admissible: tuple[str, ...]
    provisional: tuple[str, ...]


def choose(steps: Sequence[Step], *, alpha: float, margin: float, tie: float) -> Choice:
    """Apply the rule to the multipliers above the baseline, in ascending order."""
    reduced = [step for step in steps if _infra_reduced(step, alpha)]
    admissible = _fixed_sequence(steps, alpha, lambda step: step.equivalent)
    weak = _fixed_sequence(steps, alpha, lambda step: _nearly_equivalent(step, alpha, margin))
    if admissible:
        status, chosen = RecommendationStatus.RECOMMENDED, _smallest_of_best(admissible, tie)
    elif weak:
        status, chosen = RecommendationStatus.PROVISIONAL, _smallest_of_best(weak, tie)
    elif not reduced and not any(step.host_memory for step in steps):
        status, chosen = RecommendationStatus.NO_INFRA_SIGNAL, None
    else:
        status, chosen = RecommendationStatus.INCONCLUSIVE, None
    return Choice(
        status,
        None if chosen is None else chosen.id,
        tuple(step.id for step in reduced),
        tuple(step.id for step in admissible),
        tuple(step.id for step in weak),
    )


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


def _infra_reduced(step: Step, alpha: float) -> bool:
    return not step.host_memory and step.infra_p_holm < alpha and step.infra_difference < 0


def _nearly_equivalent(step: Step, alpha: float, margin: float) -> bool:
    close = abs(step.success_difference) <= margin and step.success_p >= alpha
    return step.equivalent or close


def _fixed_sequence(
    steps: Sequence[Step], alpha: float, holds: Callable[[Step], bool]
) -> list[Step]:
    """Return the candidates that cut infra errors, up to the first multiplier that fails `holds`.

    Testing in a fixed order and stopping at the first failure needs no further correction.
    """
    found = []
    for step in steps:
        if not step.candidate or step.host_memory or not holds(step):
            break
        if _infra_reduced(step, alpha):
            found.append(step)
    return found


def _smallest_of_best(steps: Sequence[Step], tie: float) -> Step:
    lowest = min(step.infra_rate for step in steps)
    # The slack keeps rates that differ by exactly `tie` on paper from being split by rounding.
    return next(step for step in steps if step.infra_rate <= lowest + tie + 1e-12)
