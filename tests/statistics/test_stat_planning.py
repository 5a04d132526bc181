import numpy as np
import pytest

from pytest_infranoise.statistics.power import (
    TrialVariance,
    minimum_detectable_effect,
    more_samples,
    pooled_trial_variance,
    samples_for_difference,
    samples_for_equivalence,
    trial_variance,
)
from pytest_infranoise.statistics.sequential import nominal_levels, planned_looks, spent

pytestmark = pytest.mark.filterwarnings("error")


def test_the_articles_design():
    assert samples_for_equivalence(TrialVariance(), 89, 0.03) == 22
    assert TrialVariance().assumed
    se = TrialVariance().standard_error(89, 5)
    assert 1.6449 * se == pytest.approx(0.035, abs=0.001)


def test_samples_and_detectable_effect_are_inverse():
    variances = TrialVariance(0.12, assumed=False)
    for effect in (0.02, 0.05, 0.1):
        samples = samples_for_difference(variances, 200, effect)
        assert minimum_detectable_effect(variances.standard_error(200, samples)) <= effect + 1e-9
        if samples > 1:
            assert minimum_detectable_effect(variances.standard_error(200, samples - 1)) > effect


def test_samples_that_would_settle_it_are_named_only_if_they_are_more():
    five = np.full(89, 5)
    assert more_samples(0.0212, five, five, 0.03) == 22
    assert more_samples(0.005, five, five, 0.03) is None
    assert more_samples(0.0212, np.full(89, 1), np.full(89, 1), 0.03) is None
    three, six = np.full(89, 3), np.full(89, 6)
    assert more_samples(0.0212, three, six, 0.03) == 18  # the harmonic mean of 3 and 6 is 4


def test_trial_variance_is_unbiased():
    generator = np.random.default_rng(1)
    p = generator.beta(0.4, 0.4, 40_000)
    n = np.full(40_000, 3)
    assert trial_variance(generator.binomial(n, p), n) == pytest.approx(0.4 / 1.8 / 2, abs=0.003)
    assert trial_variance(np.array([1, 0]), np.array([1, 1])) is None


def test_the_variance_of_two_sets_is_their_mean():
    n = np.array([2, 2])
    found = pooled_trial_variance(np.array([1, 1]), n, np.array([0, 2]), n)
    assert (found.value, found.assumed) == (0.25, False)
    once = np.array([1, 1])
    assert pooled_trial_variance(once, once, once, once) == TrialVariance()


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
