"""The threshold that covers what trials need: hand-made tables, properties, planted needs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.statistics.thresholds import (
    Evidence,
    Needs,
    NeedStatus,
    clopper_pearson_upper,
    covering_threshold,
    evidence_at,
    mean_rate_upper,
    typical_threshold,
)

STEPS = [float(step * 2**power) for power in range(3, 12) for step in (2, 3)]
INF = math.inf


def needs(*trials):
    """Trials as (limit, peak), the peak None where the trial was killed."""
    limits = np.array([limit for limit, _ in trials], dtype=float)
    killed = np.array([peak is None for _, peak in trials], dtype=bool)
    peaks = [limit if peak is None else min(peak, limit) for limit, peak in trials]
    return Needs(limits, np.array(peaks, dtype=float), killed)


def cover(made, rate=0.1, confidence=0.95):
    return covering_threshold(made, STEPS, rate=rate, confidence=confidence)


@pytest.mark.parametrize(
    ("exceeding", "n", "confidence", "upper"),
    [
        (0, 29, 0.95, 1 - 0.05 ** (1 / 29)),
        (0, 59, 0.95, 0.0495),  # Wilks: 59 trials cover 95% with 95% confidence
        (0, 1, 0.95, 0.95),
        (1, 93, 0.95, 0.0500),  # two-sided tables: the second largest of 93
        (5, 5, 0.95, 1.0),
        (3, 10, 0.975, 0.6525),
    ],
)
def test_the_bound_is_the_exact_one(exceeding, n, confidence, upper):
    assert clopper_pearson_upper(exceeding, n, confidence) == pytest.approx(upper, abs=5e-4)


def test_peaks_without_a_limit_give_an_order_statistic():
    made = needs(*[(INF, 100 + number) for number in range(30)])
    need = cover(made)
    assert (need.status, need.threshold, need.above) == (NeedStatus.SHOWN, 192.0, None)
    assert need.evidence == Evidence(30, 0, pytest.approx(1 - 0.05 ** (1 / 30)), True)
    assert need.evidence.expected == 1 / 31


def test_a_kill_is_no_peak():
    """Six killed at 64 need more than 64; that their peaks stayed below 192 says nothing."""
    need = cover(needs(*[(64, None)] * 6, *[(192, 110)] * 18, *[(INF, 112)] * 18))
    assert (need.status, need.threshold, need.above) == (NeedStatus.SHOWN, 128.0, 64.0)
    assert need.evidence == Evidence(36, 0, pytest.approx(1 - 0.025 ** (1 / 36)), True)


@pytest.mark.parametrize(
    ("trials", "status", "above"),
    [
        ([(64, None)] * 50, NeedStatus.AT_LEAST, 64.0),
        ([(64, None)] * 5 + [(192, None)] * 50, NeedStatus.AT_LEAST, 192.0),
        ([(64, None)] * 5 + [(192, 100)] * 3, NeedStatus.AT_LEAST, 64.0),
        ([(192, 100)] * 3, NeedStatus.UNKNOWN, None),
        ([], NeedStatus.UNKNOWN, None),
        ([(INF, INF)] * 50, NeedStatus.UNKNOWN, None),  # no peak can be read
        ([(INF, None)] * 50, NeedStatus.UNKNOWN, None),  # killed by somebody else
        ([(INF, None)] + [(INF, 100)] * 50, NeedStatus.UNKNOWN, None),
    ],
)
def test_what_is_not_known_is_no_figure(trials, status, above):
    need = cover(needs(*trials))
    assert (need.status, need.threshold, need.evidence, need.above) == (status, None, None, above)


def test_too_few_for_the_target_is_provisional():
    need = cover(needs(*[(INF, 100)] * 10))
    assert (need.status, need.threshold) == (NeedStatus.PROVISIONAL, 128.0)
    assert need.evidence.upper == pytest.approx(1 - 0.05**0.1)


def test_page_cache_is_not_needed():
    """What lived under 64 fits 64, however much cache it filled where there was room."""
    few = cover(needs(*[(64, 64)] * 6, *[(INF, 210)] * 36))
    assert (few.status, few.threshold, few.evidence.is_measured) == (NeedStatus.SHOWN, 256.0, True)
    many = cover(needs(*[(64, 64)] * 36, *[(INF, 210)] * 36))
    assert (many.threshold, many.evidence.is_measured) == (64.0, False)


def test_nothing_at_or_below_a_kill_is_proposed():
    """One kill at 192 speaks against 128 and 192, whatever many others did below."""
    need = cover(needs(*[(64, 30)] * 60, (192, None), *[(INF, 30)] * 60))
    assert need.threshold == 256.0


def test_unreadable_peaks_leave_what_lived():
    need = cover(needs(*[(64, 64)] * 40, *[(INF, INF)] * 40))
    assert (need.threshold, need.evidence.is_measured) == (64.0, False)


def test_half_the_trials_fit_the_typical_threshold():
    made = needs(*[(INF, 40)] * 25, *[(INF, 700)] * 5)
    need = cover(made)
    assert need.threshold == 768.0
    assert typical_threshold(made, STEPS, most=768.0, confidence=0.95) == 48.0
    even = needs(*[(INF, 40)] * 16, *[(INF, 700)] * 14)  # the median may well be 700
    assert typical_threshold(even, STEPS, most=768.0, confidence=0.95) == 768.0


def test_the_bound_on_the_mean_is_exact_for_one_task():
    one = Evidence(30, 0, 0.0, True)
    assert mean_rate_upper([one], 0.95) == pytest.approx(clopper_pearson_upper(0, 30, 0.95))
    many = mean_rate_upper([one] * 50, 0.95)
    assert 1 / 31 < many < 0.045
    with pytest.raises(ValueError, match="no task"):
        mean_rate_upper([], 0.95)


trial = st.tuples(
    st.sampled_from([64.0, 192.0, INF]),
    st.one_of(st.none(), st.floats(1, 4000)),
).filter(lambda item: item[1] is None or item[1] <= item[0])


@given(st.lists(trial, max_size=60), st.randoms(use_true_random=False))
def test_a_proposal_covers_every_trial_or_is_none(trials, chance):
    need = cover(needs(*trials))
    shuffled = list(trials)
    chance.shuffle(shuffled)
    assert cover(needs(*shuffled)) == need
    if need.threshold is None:
        return
    killed = [limit for limit, peak in trials if peak is None]
    assert all(need.threshold > limit for limit in killed)
    judged = [peak for limit, peak in trials if limit >= need.threshold]
    if need.evidence.is_measured:
        assert judged
        assert max(judged) <= need.threshold
    assert need.evidence.exceeding == 0
    assert need.evidence.upper <= (0.1 if need.status is NeedStatus.SHOWN else 0.5)


@given(st.lists(trial, max_size=40), trial)
def test_one_more_kill_never_lowers_a_shown_threshold(trials, other):
    before = cover(needs(*trials))
    after = cover(needs(*trials, (other[0], None)))
    if before.status is after.status is NeedStatus.SHOWN:
        assert after.threshold >= before.threshold


@given(st.lists(trial, min_size=1, max_size=40), st.sampled_from(STEPS))
def test_counts_lie_within_the_trials(trials, step):
    for item in evidence_at(needs(*trials), step, confidence=0.95):
        assert 0 <= item.exceeding <= item.n <= len(trials)
        assert 0 < item.upper <= 1


def planted(kind, n, chance):
    if kind == "wide":
        return 100 * np.exp(chance.normal(0, 0.6, n))
    # 11% need a lot: a threshold that misses them kills more than the target of 10%
    return np.where(chance.random(n) < 0.11, 400.0, 50.0)


@pytest.mark.parametrize("kind", ["wide", "rare"])
@pytest.mark.parametrize(
    ("sets", "samples"), [((INF,), 30), ((64, 192, INF), 12), ((64, 192, INF), 36)]
)
def test_a_shown_threshold_holds_as_often_as_it_says(kind, sets, samples):
    """benchmarks/calibration.py measures the same at length."""
    chance = np.random.default_rng(20261130)
    true = planted(kind, 100_000, chance)
    wrong, expected, rates, runs = 0, [], [], 300
    for _ in range(runs):
        limits = np.repeat(np.array(sets, dtype=float), samples)
        own = planted(kind, len(limits), chance)
        killed = own > limits
        cache = own * chance.uniform(1, 1.5, len(own))
        need = cover(Needs(limits, np.where(killed, limits, np.minimum(limits, cache)), killed))
        rate = float((true > need.threshold).mean())
        wrong += rate > need.evidence.upper
        expected.append(need.evidence.expected)
        rates.append(rate)
    assert wrong / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert np.mean(rates) <= np.mean(expected)
