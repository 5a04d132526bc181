"""The same numbers from other implementations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import (
    confint_proportions_2indep,
    proportion_confint,
    proportions_ztest,
)
from statsmodels.stats.weightstats import ttost_paired

from pytest_infranoise.statistics.contrasts import contrast, paired_contrast
from pytest_infranoise.statistics.equivalence import p_tost
from pytest_infranoise.statistics.intervals import (
    clopper_pearson,
    intraclass_correlation,
    newcombe,
    rate,
    wilson,
)
from pytest_infranoise.statistics.multiplicity import benjamini_hochberg, holm
from pytest_infranoise.statistics.paired import compare, standard_error
from pytest_infranoise.statistics.tables import (
    cochran_mantel_haenszel,
    fisher_exact,
    fisher_per_task,
    two_proportions,
)
from pytest_infranoise.statistics.trend import trend

pytestmark = pytest.mark.filterwarnings("error")

counts = st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts)
@settings(deadline=None)
def test_intervals_of_one_proportion(count):
    x, n = count
    assert wilson(x / n, n) == pytest.approx(proportion_confint(x, n, method="wilson"), abs=1e-9)
    exact = stats.binomtest(x, n).proportion_ci(0.95, "exact")
    assert clopper_pearson(x, n) == pytest.approx((exact.low, exact.high), abs=1e-9)


@given(counts, counts)
@settings(deadline=None)
def test_two_proportions(a, b):
    p = (a[0] / a[1], b[0] / b[1])
    expected = confint_proportions_2indep(
        b[0], b[1], a[0], a[1], compare="diff", method="newcomb", correction=False
    )
    assert newcombe(p[0], a[1], p[1], b[1]) == pytest.approx(expected, abs=1e-9)
    table = [[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]
    assert fisher_exact(*a, *b) == pytest.approx(stats.fisher_exact(table).pvalue, abs=1e-9)
    if 0 < a[0] + b[0] < a[1] + b[1]:
        _, z_p = proportions_ztest([a[0], b[0]], [a[1], b[1]])
        assert two_proportions(*a, *b) == pytest.approx(z_p, abs=1e-9)
    else:
        assert two_proportions(*a, *b) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(deadline=None, max_examples=30)
def test_corrections(p_values):
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1], abs=1e-12)
    expected = multipletests(p_values, method="fdr_bh")[1]
    assert benjamini_hochberg(p_values) == pytest.approx(expected, abs=1e-12)


def test_corrections_of_nothing():
    assert holm([]) == ()
    assert benjamini_hochberg([]).size == 0


def random_study(seed, tasks=30, sets=2, samples=5):
    generator = np.random.default_rng(seed)
    p = generator.beta(0.6, 0.6, size=(tasks, 1))
    n = np.full((tasks, sets), samples)
    return generator.binomial(n, np.broadcast_to(p, n.shape)), n


@pytest.mark.parametrize("seed", range(5))
def test_t_interval_and_tost(seed):
    x, n = random_study(seed)
    differences = x[:, 1] / 5 - x[:, 0] / 5
    result = compare(paired_contrast(x[:, 0], n[:, 0], x[:, 1], n[:, 1]))
    reference = stats.ttest_1samp(differences, 0)
    assert result.se is not None
    assert result.p_t == pytest.approx(reference.pvalue, abs=1e-9)
    assert result.se.t == pytest.approx(stats.sem(differences), abs=1e-12)
    tost, _, _ = ttost_paired(x[:, 1] / 5, x[:, 0] / 5, -0.03, 0.03)
    assert p_tost(result.difference, result.se.t, 29, 0.03) == pytest.approx(tost, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_tost_is_the_ninety_percent_interval(seed):
    x, n = random_study(seed, tasks=200)
    result = compare(paired_contrast(x[:, 0], n[:, 0], x[:, 1], n[:, 1]))
    assert result.se is not None
    assert result.ci90 is not None
    for margin in (0.01, 0.03, 0.08):
        inside = -margin < result.ci90[0] and result.ci90[1] < margin
        assert inside == (p_tost(result.difference, result.se.value, 199, margin) < 0.05)


@pytest.mark.parametrize("seed", range(5))
def test_cochran_mantel_haenszel(seed):
    x, n = random_study(seed)
    tables = [np.array([[b, 5 - b], [a, 5 - a]]) for a, b in x if 0 < a + b < 10]
    expected = StratifiedTable(tables).test_null_odds(correction=False)
    result = cochran_mantel_haenszel(x[:, 0], n[:, 0], x[:, 1], n[:, 1])
    assert result is not None
    assert result.statistic == pytest.approx(expected.statistic, abs=1e-9)
    assert result.p_value == pytest.approx(expected.pvalue, abs=1e-9)


def test_cochran_mantel_haenszel_without_variation():
    ones, fives = np.array([5, 0]), np.array([5, 5])
    assert cochran_mantel_haenszel(ones, fives, ones, fives) is None


@pytest.mark.parametrize("seed", range(3))
def test_trend_is_the_mean_of_least_squares_slopes(seed):
    x, n = random_study(seed, sets=4)
    slopes = [np.polyfit(range(4), row / 5, 1)[0] for row in x]
    result = trend(x, n)
    assert result is not None
    reference = stats.ttest_1samp(slopes, 0)
    assert result.slope.difference == pytest.approx(np.mean(slopes), abs=1e-12)
    assert result.slope.p_t == pytest.approx(reference.pvalue, abs=1e-9)


def test_trend_uses_complete_tasks_and_needs_three_sets():
    x, n = random_study(1, sets=4)
    n[0, 2], x[0, 2] = 0, 0
    result = trend(x, n)
    assert result is not None
    assert result.slope.n_tasks == 29
    assert trend(x[:, :2], n[:, :2]) is None
    assert trend(x[:1], n[:1]) is None


def test_intraclass_correlation_is_one_way_anova():
    x, n = random_study(3, samples=6)
    events, trials = x[:, 0], n[:, 0]
    groups = [np.repeat([1, 0], [e, 6 - e]) for e in events]
    f = stats.f_oneway(*groups).statistic
    assert intraclass_correlation(events, trials) == pytest.approx((f - 1) / (f + 5), abs=1e-9)


@pytest.mark.parametrize(
    ("events", "trials"),
    [([3, 0, 2], [1, 1, 1]), ([4], [5]), ([5, 5], [5, 5]), ([0, 0, 0], [4, 4, 4])],
)
def test_intraclass_correlation_is_undefined(events, trials):
    events = np.minimum(events, trials)
    assert intraclass_correlation(np.array(events), np.array(trials)) is None


def test_design_effect_is_the_squared_ratio_of_standard_errors():
    x, n = random_study(8, tasks=50)
    result = rate(x[:, 0], n[:, 0])
    assert result is not None
    means = x[:, 0] / 5
    p = means.mean()
    expected = (means.std(ddof=1) ** 2 / 50) / (p * (1 - p) / 250)
    assert result.deff == pytest.approx(expected)
    assert result.n_eff == pytest.approx(250 / expected)
    assert not result.assumes_independence


def test_copies_of_one_sample_are_worth_one_trial_per_task():
    x, n = np.array([20, 20, 0, 20]), np.array([20, 20, 20, 20])
    result = rate(x, n, samples_count=False)
    assert result is not None
    assert result.n_eff <= 4


def test_rate_of_nothing():
    assert rate(np.array([0]), np.array([0])) is None


def test_fisher_per_task_equals_single_calls():
    x, n = random_study(5)
    p = fisher_per_task(x[:, 0], n[:, 0], x[:, 1], n[:, 1])
    assert list(p) == [fisher_exact(int(a), 5, int(b), 5) for a, b in x]


def test_general_contrast_equals_the_weighted_sum():
    x, n = random_study(2, sets=4)
    weights = (1, -1, -1, 1)
    result = contrast(list(x.T), list(n.T), weights)
    per_task = (x / n) @ np.array(weights)
    assert result.mean == pytest.approx(per_task.mean(), abs=1e-12)
    assert standard_error(result).t == pytest.approx(stats.sem(per_task), abs=1e-12)
    assert result.spread_constant == pytest.approx(4 / 5 / 2)


def test_floor_spares_no_constant_difference():
    ones = np.ones(5, dtype=np.int64)
    se = standard_error(paired_contrast(0 * ones, ones, ones, ones))
    assert se.t == 0
    # 5 tasks at +1 and two pseudo-tasks: ((5 + 2) / 7 - (5 / 7)^2) / 7
    assert se.floor == pytest.approx(math.sqrt((1 - 25 / 49) / 7))
