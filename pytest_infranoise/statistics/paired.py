"""Two parameter sets compared task by task: difference, floored interval, test, equivalence."""

import math
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from pytest_infranoise.statistics.contrasts import Contrast
from pytest_infranoise.statistics.signflip import sign_flip

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class StandardError:
    """The standard error of a mean contrast: the larger of the t and the floored one.

    The floor pretends two more tasks that moved apart as far as coin flips would; without it five
    tasks that all pass would "prove" equality with an interval of width zero.
    """

    t: float
    floor: float

    @property
    def value(self) -> float:
        """The standard error that intervals use."""
        return max(self.t, self.floor)


@dataclass(frozen=True, slots=True)
class Paired:
    """A contrast over tasks, estimated and tested.

    `difference`, `se` and the intervals are proportions. With one task there is neither standard
    error nor interval, and the p-value of the sign-flip test is 1. `p_t` is the paired t test's,
    None where the contrasts do not vary.
    """

    n_tasks: int
    n_differing: int
    difference: float
    se: StandardError | None
    ci95: Interval | None
    ci90: Interval | None
    p_value: float
    smallest_p: float
    exact: bool
    p_t: float | None


def compare(contrast: Contrast) -> Paired:
    """Estimate and test a contrast; it must hold at least one task."""
    test = sign_flip(contrast)
    se = standard_error(contrast) if contrast.n_tasks > 1 else None
    return Paired(
        n_tasks=contrast.n_tasks,
        n_differing=test.n_differing,
        difference=contrast.mean,
        se=se,
        ci95=None if se is None else t_interval(contrast.mean, se.value, contrast.n_tasks, 0.95),
        ci90=None if se is None else t_interval(contrast.mean, se.value, contrast.n_tasks, 0.90),
        p_value=test.p_value,
        smallest_p=test.smallest_p,
        exact=test.exact,
        p_t=None if se is None else t_test(contrast.mean, se.t, contrast.n_tasks),
    )


def variance(contrast: Contrast) -> float:
    """Return the unbiased variance of the task contrasts; there must be two tasks."""
    n = contrast.n_tasks
    # All integers: equal contrasts give exactly zero, whatever the order of the tasks.
    numerator = n * contrast.total_of_squares - contrast.total**2
    return numerator / (n * (n - 1) * contrast.scale**2)


def standard_error(contrast: Contrast) -> StandardError:
    """Return both standard errors of the mean contrast; there must be two tasks."""
    n = contrast.n_tasks
    squares = contrast.total_of_squares / contrast.scale**2
    total = contrast.total / contrast.scale
    floor = (squares + 2 * contrast.spread_constant) / (n + 2) - (total / (n + 2)) ** 2
    return StandardError(
        t=math.sqrt(variance(contrast) / n), floor=math.sqrt(max(0.0, floor) / (n + 2))
    )


def t_interval(mean: float, se: float, n_tasks: int, level: float) -> Interval:
    """Return the two-sided t interval with n_tasks - 1 degrees of freedom."""
    half = float(stdtrit(n_tasks - 1, (1 + level) / 2)) * se
    return (mean - half, mean + half)


def t_test(mean: float, se: float, n_tasks: int) -> float | None:
    """Return the two-sided p-value of the t test; None where the standard error is zero."""
    return None if se == 0 else 2 * float(stdtr(n_tasks - 1, -abs(mean) / se))
