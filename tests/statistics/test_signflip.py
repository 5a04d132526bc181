import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar

from pytest_infranoise.statistics import signflip
from pytest_infranoise.statistics.contrasts import Contrast, contrast, paired_contrast
from pytest_infranoise.statistics.signflip import sign_flip

pytestmark = pytest.mark.filterwarnings("error")


def contrast_of(values, scale=1):
    distinct = sorted(set(values))
    return Contrast(tuple(distinct), tuple(values.count(v) for v in distinct), scale, 0.5)


def by_enumeration(values):
    values = [value for value in values if value]
    observed = abs(sum(values))
    signs = itertools.product((-1, 1), repeat=len(values))
    hits = sum(
        abs(sum(s * v for s, v in zip(row, values, strict=True))) >= observed for row in signs
    )
    return hits / 2 ** len(values)


@given(st.lists(st.integers(-60, 60), min_size=1, max_size=11))
@settings(max_examples=200, deadline=None)
def test_equals_the_enumeration_of_all_signs(values):
    assert sign_flip(contrast_of(values)).p_value == pytest.approx(
        by_enumeration(values), abs=1e-12
    )


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.integers(1, 12))
@settings(deadline=None)
def test_scale_and_signs_do_not_matter(values, factor):
    result = sign_flip(contrast_of(values))
    assert sign_flip(contrast_of([factor * v for v in values], factor)) == result
    assert sign_flip(-contrast_of(values)) == result


@pytest.mark.parametrize(("more", "fewer"), [(7, 1), (10, 0), (30, 22), (400, 350), (3, 3)])
def test_one_sample_is_mcnemars_exact_test(more, fewer):
    x_a = np.array([0] * more + [1] * fewer + [1, 0])
    x_b = np.array([1] * more + [0] * fewer + [1, 0])
    ones = np.ones_like(x_a)
    p = sign_flip(paired_contrast(x_a, ones, x_b, ones)).p_value
    expected = mcnemar([[1, fewer], [more, 1]], exact=True).pvalue
    assert p == pytest.approx(min(1.0, expected), abs=1e-12)


@pytest.mark.parametrize("n", [5_000, 60_000])
def test_large_studies_keep_twelve_digits(n):
    more = n // 2 + int(1.5 * math.sqrt(n))
    p = sign_flip(contrast_of([1] * more + [-1] * (n - more))).p_value
    assert p == pytest.approx(binomtest(more, n).pvalue, abs=1e-12)


def test_ties_between_fractions_are_ties():
    # 1/3 + 1/3 + 1/3 against 1/2 + 1/2: in floats the sums differ in the last digit.
    x_a, n_a = np.array([0, 0, 0, 1, 1]), np.array([3, 3, 3, 2, 2])
    x_b, n_b = np.array([1, 1, 1, 0, 0]), np.array([3, 3, 3, 2, 2])
    result = paired_contrast(x_a, n_a, x_b, n_b)
    assert result.total == 0
    assert sign_flip(result).p_value == 1.0


def test_nothing_differs():
    assert sign_flip(contrast_of([0, 0, 0])) == signflip.SignFlip(1.0, 0, 1.0)


@pytest.mark.parametrize("values", [[1] * 5, [1] * 6, [7, 7, 7, 1, 1, 2]])
def test_smallest_attainable_p(values):
    result = sign_flip(contrast_of(values))
    assert result.p_value == pytest.approx(result.smallest_p)
    assert result.smallest_p == 2.0 ** (1 - len(values))


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=12))
@settings(max_examples=50, deadline=None)
def test_enumerating_agrees_with_fourier(values):
    expected = sign_flip(contrast_of(values)).p_value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signflip, "EXACT_POINTS", 1)
        result = sign_flip(contrast_of(values))
    assert result.exact
    assert result.p_value == pytest.approx(expected, abs=1e-12)


def test_drawing_agrees_with_fourier(monkeypatch):
    values = [3, -1, 2, 5, 5, -2, 1, 1, 4, -3, 2, 2, -1, 6, 1, 1, -4, 3, 2, 1, 1, -2, 3, 3]
    expected = sign_flip(contrast_of(values)).p_value
    monkeypatch.setattr(signflip, "EXACT_POINTS", 1)
    result = sign_flip(contrast_of(values))
    assert not result.exact
    error = 4 * math.sqrt(expected * (1 - expected) / signflip.DRAWS)
    assert result.p_value == pytest.approx(expected, abs=error)
    assert sign_flip(contrast_of(values[::-1])) == result


def test_sample_counts_with_a_huge_common_multiple():
    n_a = np.array([97, 89, 83, 79, 73, 71, 67, 61, 59, 53, 47, 43, 41])
    n_b = n_a + 2
    x_a, x_b = n_a // 3, n_b // 2
    result = paired_contrast(x_a, n_a, x_b, n_b)
    exact = sum(
        (
            Fraction(int(b), int(m)) - Fraction(int(a), int(n))
            for a, n, b, m in zip(x_a, n_a, x_b, n_b, strict=True)
        ),
        Fraction(0),
    ) / len(n_a)
    assert result.scale > 2**63
    assert result.mean == float(exact)
    assert sign_flip(result).p_value == pytest.approx(2.0 ** (1 - len(n_a)))


def test_contrast_drops_tasks_that_did_not_run_everywhere():
    result = contrast(
        (np.array([1, 1, 0]), np.array([2, 0, 1])),
        (np.array([2, 2, 0]), np.array([2, 0, 1])),
        (-1, 1),
    )
    assert (result.n_tasks, result.mean) == (1, 0.5)
