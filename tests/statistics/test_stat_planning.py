import numpy as np
import pytest

from pytest_infranoise.statistics.power import (
    Variances,
    estimate_variances,
    minimum_detectable_effect,
    samples_for_difference,
    samples_for_equivalence,
    trial_variance,
)
from pytest_infranoise.statistics.sequential import nominal_levels, planned_looks, spent

pytestmark = pytest.mark.filterwarnings("error")


def test_the_articles_design():
    assert samples_for_equivalence(Variances(), 89, 0.03) == 22
    assert Variances().assumed
    se = Variances().standard_error(89, 5)
    assert 1.6449 * se == pytest.approx(0.035, abs=0.001)


def test_samples_and_detectable_effect_are_inverse():
    variances = Variances(trial=0.12, effect=0.002)
    for effect in (0.02, 0.05, 0.1):
        samples = samples_for_difference(variances, 200, effect)
        if samples is None:
            assert minimum_detectable_effect(variances.standard_error(200, 10**9)) > effect
            continue
        assert minimum_detectable_effect(variances.standard_error(200, samples)) <= effect + 1e-9
        if samples > 1:
            assert minimum_detectable_effect(variances.standard_error(200, samples - 1)) > effect


def test_more_samples_cannot_help_where_effects_differ_between_tasks():
    assert samples_for_equivalence(Variances(effect=0.05), 89, 0.03) is None
    assert samples_for_equivalence(Variances(effect=0.05), 89, 0.03, floored=True) is None


def test_the_floor_asks_for_more_where_nothing_varies():
    nothing = Variances(trial=0.0)
    assert samples_for_equivalence(nothing, 10, 0.03) == 1
    assert samples_for_equivalence(nothing, 10, 0.03, floored=True) == 133


def test_trial_variance_is_unbiased():
    generator = np.random.default_rng(1)
    p = generator.beta(0.4, 0.4, 40_000)
    n = np.full(40_000, 3)
    assert trial_variance(generator.binomial(n, p), n) == pytest.approx(0.4 / 1.8 / 2, abs=0.003)
    assert trial_variance(np.array([1, 0]), np.array([1, 1])) is None


def test_estimated_variances_split_the_spread():
    generator = np.random.default_rng(2)
    p = generator.uniform(0.2, 0.8, 20_000)
    moved = p + generator.choice([-0.1, 0.1], 20_000)
    n = np.full(20_000, 5)
    x_a, x_b = generator.binomial(n, p), generator.binomial(n, moved)
    found = estimate_variances(x_a, n, x_b, n, float(np.var(x_b / 5 - x_a / 5, ddof=1)))
    assert found.effect == pytest.approx(0.01, abs=0.003)
    assert not found.assumed


@pytest.mark.parametrize(
    ("looks", "bounds"),
    [
        (1, [1.9600]),
        (2, [2.9626, 1.9686]),
        (3, [3.7103, 2.5114, 1.9930]),
        (5, [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
    ],
)
def test_published_boundaries_of_the_spending_function(looks, bounds):
    from scipy.stats import norm

    fractions = [step / looks for step in range(1, looks + 1)]
    found = [norm.isf(level / 2) for level in nominal_levels(fractions, 0.05)]
    assert found == pytest.approx(bounds, abs=2e-4)


def test_spending_ends_at_alpha():
    assert spent(1.0, 0.05) == pytest.approx(0.05)
    assert spent(0.01, 0.05) < 1e-12


def test_three_looks_keep_the_error_rate():
    generator = np.random.default_rng(3)
    looks = planned_looks(9)
    scores = np.cumsum(generator.standard_normal((200_000, 3)), axis=1) / np.sqrt([1, 2, 3])
    from scipy.stats import norm

    rejected = np.any(2 * norm.sf(abs(scores)) < [x.level_difference for x in looks], axis=1)
    one_sided = np.any(norm.sf(scores) < [x.level_equivalence for x in looks], axis=1)
    assert rejected.mean() == pytest.approx(0.05, abs=0.002)
    assert one_sided.mean() == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize(
    ("maximum", "samples"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (10, [4, 7, 10])]
)
def test_planned_looks_are_whole_samples(maximum, samples):
    looks = planned_looks(maximum)
    assert [look.samples for look in looks] == samples
    assert [look.number for look in looks] == list(range(1, len(samples) + 1))
    assert all(look.of == len(samples) and look.max_samples == maximum for look in looks)
