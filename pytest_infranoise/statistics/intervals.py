"""Intervals for proportions, and how many independent trials clustered ones are worth."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from pytest_infranoise.statistics.contrasts import IntArray, distinct_cells

Interval = tuple[float, float]


def wilson(proportion: float, n: float, level: float = 0.95) -> Interval:
    """Return Wilson's score interval; `n` above zero, may be an effective sample size."""
    z = float(ndtri((1 + level) / 2))
    centre = (proportion + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(proportion * (1 - proportion) / n + z**2 / (4 * n**2))
    low = 0.0 if proportion == 0 else max(0.0, centre - half)
    high = 1.0 if proportion == 1 else min(1.0, centre + half)
    return (low, high)


def clopper_pearson(events: int, n: int, level: float = 0.95) -> Interval:
    """Return the exact binomial interval; `n` above zero."""
    tail = (1 - level) / 2
    low = 0.0 if events == 0 else float(betaincinv(events, n - events + 1, tail))
    high = 1.0 if events == n else float(betaincinv(events + 1, n - events, 1 - tail))
    return (low, high)


def newcombe(p_a: float, n_a: float, p_b: float, n_b: float, level: float = 0.95) -> Interval:
    """Return Newcombe's hybrid score interval of p_b - p_a for unpaired proportions."""
    low_a, high_a = wilson(p_a, n_a, level)
    low_b, high_b = wilson(p_b, n_b, level)
    difference = p_b - p_a
    return (
        difference - math.hypot(p_b - low_b, high_a - p_a),
        difference + math.hypot(high_b - p_b, p_a - low_a),
    )


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of one parameter set.

    `macro` is the unweighted mean over tasks of the task's mean, `micro` events over trials.
    `se_task` is the standard error over tasks (None with one task), `se_fixed` the re-run noise on
    these very tasks (None where some task ran once). `deff` is the design effect and `n_eff` the
    independent trials that these are worth; `assumes_independence` says that the data could not
    tell. `ci95` is Wilson's with `n_eff`.
    """

    n_tasks: int
    n_trials: int
    events: int
    macro: float
    micro: float
    se_task: float | None
    se_fixed: float | None
    icc: float | None
    deff: float
    n_eff: float
    assumes_independence: bool
    ci95: Interval


def rate(events: IntArray, trials: IntArray, *, samples_count: bool = True) -> Rate | None:
    """Return the rate of an event over tasks, shape (tasks,); None without any trial.

    With `samples_count` False the samples are copies, so a task is worth one trial at most.
    """
    ran = trials > 0
    cells = distinct_cells(events[ran], trials[ran])
    x, n, count = cells
    tasks, total, n_events = int(count.sum()), int((n * count).sum()), int((x * count).sum())
    if tasks == 0:
        return None
    means = x / n
    macro = math.fsum(means * count) / tasks
    se_task = None
    if tasks > 1:
        se_task = math.sqrt(math.fsum((means - macro) ** 2 * count) / (tasks - 1) / tasks)
    independent = macro * (1 - macro) / total
    unknown = se_task is None or independent <= 0 or n_events in (0, total)
    deff = 1.0 if se_task is None or unknown else max(1.0, se_task**2 / independent)
    n_eff = total / deff if samples_count else min(total / deff, float(tasks))
    return Rate(
        n_tasks=tasks,
        n_trials=total,
        events=n_events,
        macro=macro,
        micro=n_events / total,
        se_task=se_task,
        se_fixed=fixed_task_se(events[ran], trials[ran]),
        icc=_correlation(*cells),
        deff=deff,
        n_eff=n_eff,
        assumes_independence=unknown,
        ci95=wilson(macro, n_eff),
    )


def fixed_task_se(events: IntArray, trials: IntArray) -> float | None:
    """Return the standard error of the mean over exactly these tasks.

    It is the noise of running them again; None where a task ran fewer than two samples.
    """
    if len(trials) == 0 or int(trials.min()) < 2:
        return None
    x, n, count = distinct_cells(events, trials)
    p = x / n
    return math.sqrt(math.fsum(p * (1 - p) / (n - 1) * count)) / len(trials)


def intraclass_correlation(events: IntArray, trials: IntArray) -> float | None:
    """Return the one-way ANOVA correlation between samples of one task.

    None where it is undefined: fewer than two tasks, no task with two samples, or no variation.
    """
    return _correlation(*distinct_cells(events, trials))


def _correlation(x: IntArray, n: IntArray, count: IntArray) -> float | None:
    tasks, total = int(count.sum()), int((n * count).sum())
    if tasks < 2 or total == tasks:
        return None
    p = x / n
    grand = float((x * count).sum()) / total
    between = math.fsum(n * (p - grand) ** 2 * count) / (tasks - 1)
    within = math.fsum(n * p * (1 - p) * count) / (total - tasks)
    n0 = (total - float((n.astype(np.float64) ** 2 * count).sum()) / total) / (tasks - 1)
    denominator = between + (n0 - 1) * within
    return None if denominator <= 0 else (between - within) / denominator
