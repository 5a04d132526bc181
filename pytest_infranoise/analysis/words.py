"""The sentences of a verdict: what the data show, and never more.

Every function returns plain text and takes nothing but results. The words that may be used, and
those that may not, are in docs/statistics.md.
"""

from collections.abc import Iterator

from pytest_infranoise.analysis.figures import at, percent, plural
from pytest_infranoise.analysis.ladder import JOINT
from pytest_infranoise.analysis.results import Analysis, SetResult
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.words_answer import answer_lines
from pytest_infranoise.analysis.words_contrasts import (
    comparison_lines,
    control_lines,
    drift_lines,
    dropped_line,
    movement_counts,
    movement_lines,
    spread_lines,
    timeout_lines,
)
from pytest_infranoise.analysis.words_detail import methods, sensitivity
from pytest_infranoise.model.outcome import Outcome


def verdict_lines(analysis: Analysis, *, verbosity: int = 0) -> list[str]:
    """Return the verdict, one sentence per line: the answer, then what stands behind it.

    Args:
        analysis: What to put into words.
        verbosity: Below 0 the answer only; 1 with every contrast, names and sensitivity lines, 2
            with every method, n and correction.
    """
    lines = answer_lines(analysis)
    return lines if verbosity < 0 else lines + detail_lines(analysis, verbosity=verbosity)


def detail_lines(analysis: Analysis, *, verbosity: int = 0) -> list[str]:
    """Return what stands behind the answer: kills, what moved, what this study cannot tell."""
    if analysis.n_trials == 0:
        return []
    lines = [kill_line(analysis), *_foreign_kills(analysis), *_nothing_passed(analysis)]
    lines += [f"note: {note}" for note in analysis.recommendation.notes]
    if analysis.control is not None:
        lines += control_lines(analysis.control)
    if verbosity >= 1:
        lines += _contrasts(analysis)
    else:
        lines += _moved(analysis)
    lines += _left_out(analysis)
    lines += timeout_lines(analysis)
    if not analysis.settings.fit_only:  # copies of one solution do not vary by chance
        lines += drift_lines(analysis)
    lines += scope_lines(analysis)
    if verbosity >= 1:
        lines += sensitivity(analysis)
    if verbosity >= 2:
        lines += methods(analysis)
    return lines


def _contrasts(analysis: Analysis) -> list[str]:
    lines: list[str] = []
    for item in analysis.comparisons:
        lines += comparison_lines(item, analysis, with_figures=True)
    for item in analysis.comparisons:
        known = analysis.settings.records_kills
        lines += movement_lines(item, all_names=True, records_kills=known)
    return lines if analysis.settings.fit_only else lines + spread_lines(analysis)


def _moved(analysis: Analysis) -> list[str]:
    """Return in one line which tasks moved where; names only beyond chance."""
    counted = [movement_counts(item) for item in analysis.comparisons]
    parts = [text for text in counted if text is not None]
    if not parts:
        return []
    unknown = "" if analysis.settings.records_kills else "; kills are unknown"
    return [f"tasks that moved (named where beyond chance{unknown}): {'; '.join(parts)}"]


def _left_out(analysis: Analysis) -> list[str]:
    """Return which sets lack tasks; the figures then rest on the common ones."""
    return [dropped_line(item) for item in analysis.comparisons if item.n_dropped]


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
