"""Spread and drift: nulls that hold, limits that agree, effects that are found."""

import numpy as np
import pytest
from scipy import stats

from pytest_infranoise.statistics import drift as drift_module
from pytest_infranoise.statistics import spread as spread_module
from pytest_infranoise.statistics.drift import drift
from pytest_infranoise.statistics.spread import spread

pytestmark = pytest.mark.filterwarnings("error")


def identical_sets(seed, tasks=89, sets=6, samples=5):
    generator = np.random.default_rng(seed)
    p = np.broadcast_to(generator.beta(0.4, 0.4, size=(tasks, 1)), (tasks, sets))
    n = np.full((tasks, sets), samples)
    return generator.binomial(n, p), n


def test_identical_sets_spread_by_four_points():
    results = [spread(*identical_sets(seed)) for seed in range(8)]
    mean = np.mean([result.null_mean for result in results])
    assert mean == pytest.approx(0.040, abs=0.004)
    assert all(result.method == "permutation" for result in results)


def test_two_sets_agree_with_the_exact_test():
    x, n = identical_sets(4, tasks=40, sets=2)
    x[:, 1] = np.minimum(5, x[:, 1] + (np.arange(40) % 5 == 0))
    differences = x[:, 1] / 5 - x[:, 0] / 5
    exact = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=99_999, random_state=1
    ).pvalue
    result = spread(x, n)
    assert result is not None
    assert result.p_value == pytest.approx(exact, abs=0.02)
    assert result.spread == pytest.approx(abs(differences.mean()))


def test_normal_limit_agrees_with_permutations(monkeypatch):
    x, n = identical_sets(5, tasks=150, sets=5)
    permuted = spread(x, n)
    monkeypatch.setattr(spread_module, "_CELLS", 0)
    limit = spread(x, n)
    assert permuted is not None
    assert limit is not None
    assert limit.method == "normal_limit"
    assert limit.p_value == pytest.approx(permuted.p_value, abs=0.02)
    assert limit.null_95 == pytest.approx(permuted.null_95, rel=0.03)
    assert limit.null_mean == pytest.approx(permuted.null_mean, rel=0.03)


@pytest.mark.parametrize("sets", [2, 6, 10])
def test_range_of_normals(sets):
    reference = stats.studentized_range(sets, np.inf)
    values = np.array([0.5, 2.0, 4.0])
    assert spread_module._range_cdf(values, sets) == pytest.approx(reference.cdf(values), abs=1e-6)
    mean, upper = spread_module._range_moments(sets)
    assert upper == pytest.approx(reference.ppf(0.95), abs=1e-3)
    assert 0 < mean < upper


def test_spread_ignores_the_order_of_tasks_and_sets():
    x, n = identical_sets(6, tasks=20, sets=4)
    rows, columns = np.random.default_rng(1).permutation(20), [2, 0, 3, 1]
    assert spread(x, n) == spread(x[rows][:, columns], n[rows][:, columns])


def test_spread_without_variation():
    n = np.full((5, 3), 4)
    result = spread(n, n)
    assert result is not None
    assert (result.spread, result.null_95, result.p_value) == (0.0, 0.0, 1.0)
    assert spread(n[:1], n[:1]) is None
    assert spread(n[:, :1], n[:, :1]) is None


def blocks(seed, tasks=40, samples=5, shift=0.0):
    generator = np.random.default_rng(seed)
    task = np.tile(np.arange(tasks), samples)
    time = np.arange(tasks * samples, dtype=float)
    p = generator.beta(1, 1, tasks)[task] + shift * (time / time.max() - 0.5)
    result = generator.binomial(3, np.clip(p, 0, 1)) / 3
    return task, time, result


def test_drift_holds_its_level(monkeypatch):
    monkeypatch.setattr(drift_module, "RESAMPLES", 999)
    p_values = [drift(*blocks(seed)).p_value for seed in range(60)]
    assert np.mean(np.array(p_values) < 0.05) <= 0.15
    assert 0.35 < np.mean(p_values) < 0.65


def test_drift_is_found():
    result = drift(*blocks(1, shift=0.6))
    assert result is not None
    assert result.p_value < 0.01
    assert result.deviations[-1] > result.deviations[0]
    assert len(result.deviations) == drift_module.SEGMENTS


def test_drift_by_chi_square_agrees_with_permutations(monkeypatch):
    data = blocks(3, tasks=80, shift=0.15)
    permuted = drift(*data)
    monkeypatch.setattr(drift_module, "_CELLS", 0)
    limit = drift(*data)
    assert permuted is not None
    assert limit is not None
    assert (permuted.method, limit.method) == ("permutation", "chi_square")
    assert limit.p_value == pytest.approx(permuted.p_value, abs=0.03)


def test_drift_ignores_the_order_of_blocks_and_names_of_tasks():
    task, time, result = blocks(2)
    order = np.random.default_rng(1).permutation(len(task))
    renamed = np.random.default_rng(2).permutation(40)[task]
    assert drift(renamed[order], time[order], result[order]) == drift(task, time, result)


def test_drift_needs_repeats_and_times():
    task, time, result = blocks(2, samples=1)
    assert drift(task, time, result) is None
    task, time, result = blocks(2)
    assert drift(task, 0 * time, result) is None
    assert drift(task[:0], time[:0], result[:0]) is None


def test_drift_without_variation():
    task, time, result = blocks(2)
    found = drift(task, time, 0 * result)
    assert found is not None
    assert found.p_value == 1.0
