"""The within-task permutation test and the standard error of these tasks."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, fisher_exact

from pytest_infranoise.statistics import within
from pytest_infranoise.statistics.these_tasks import interval, precision
from pytest_infranoise.statistics.within import within_task

_FILE = Path(__file__).parent.parent / "reference" / "within_task_cases.json"
CASES = json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
COUNTED = {"success": (2,), "infra_errors": (5, 6), "gain_beyond_repair": (3, 4)}
SIGN = {"success": 1, "infra_errors": 1, "gain_beyond_repair": -1}


def arrays(tables):
    """Rows (x_a, n_a, x_b, n_b) as columns."""
    return tuple(np.array(column) for column in zip(*tables, strict=True))


def cells_of(case, measure):
    """Events and trials of 1x and of 3x, in the order of the tasks."""
    found = []
    for name in ("1x", "3x"):
        rows = [row for row in case["input"]["rows"] if row[1] == name]
        found.append(np.array([sum(row[i] for i in COUNTED[measure]) for row in rows]))
        found.append(np.array([sum(row[2:]) for row in rows]))
    return found


def enumerated(tables):
    """The two-sided p-value by going through every table, as an exact fraction."""
    total: dict[Fraction, Fraction] = {Fraction(0): Fraction(1)}
    observed = Fraction(0)
    for x_a, n_a, x_b, n_b in tables:
        m, n = x_a + x_b, n_a + n_b
        observed += Fraction(x_a, n_a) - Fraction(x_b, n_b)
        ways = {
            Fraction(x, n_a) - Fraction(m - x, n_b): Fraction(
                math.comb(n_a, x) * math.comb(n_b, m - x), math.comb(n, m)
            )
            for x in range(max(0, m - n_b), min(n_a, m) + 1)
        }
        grown: dict[Fraction, Fraction] = {}
        for (a, p), (b, q) in itertools.product(total.items(), ways.items()):
            grown[a + b] = grown.get(a + b, Fraction(0)) + p * q
        total = grown
    most = max(map(abs, total))
    return (
        sum(p for value, p in total.items() if abs(value) >= abs(observed)),
        sum(p for value, p in total.items() if abs(value) == most),
    )


@pytest.mark.parametrize("measure", COUNTED)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_reference(case, measure):
    cells, expected = cells_of(case, measure), case["expected"][measure]
    test, found = within_task(*cells), precision(*cells)

    def near(value):
        return pytest.approx(value, abs=case["tolerance_abs"], rel=0)

    difference = SIGN[measure] * float(np.mean(cells[2] / cells[3] - cells[0] / cells[1]))
    assert difference == near(expected["difference"])
    assert test.p_value == near(expected["p_within_task"])
    assert test.smallest_p == near(expected["least_attainable_p"])
    assert (found.value, found.df) == (near(expected["se"]), expected["nu"])
    assert interval(difference, found.value, found.df, 0.95) == near(expected["ci95"])
    assert interval(difference, found.value, found.df, 0.90) == near(expected["ci90"])


@st.composite
def small_tables(draw, most_tasks=4, most_samples=4):
    rows = []
    for _ in range(draw(st.integers(1, most_tasks))):
        n_a, n_b = draw(st.integers(1, most_samples)), draw(st.integers(1, most_samples))
        rows.append((draw(st.integers(0, n_a)), n_a, draw(st.integers(0, n_b)), n_b))
    return rows


@given(small_tables())
@settings(max_examples=200, deadline=None)
def test_equals_enumeration(tables):
    p_value, smallest = enumerated(tables)
    found = within_task(*arrays(tables))
    assert found.exact
    assert found.p_value == pytest.approx(float(p_value), abs=1e-12)
    assert found.smallest_p == pytest.approx(float(smallest), rel=1e-9)


@given(small_tables(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_neither_order_nor_direction_matters(tables, random):
    forward = within_task(*arrays(tables))
    moved = random.sample(tables, len(tables))
    assert within_task(*arrays(moved)) == forward
    x_a, n_a, x_b, n_b = arrays(tables)
    assert within_task(x_b, n_b, x_a, n_a).p_value == pytest.approx(forward.p_value, abs=1e-12)
    failures = within_task(n_a - x_a, n_a, n_b - x_b, n_b)
    assert failures.p_value == pytest.approx(forward.p_value, abs=1e-12)


def test_one_task_is_fishers_test():
    """Equal samples only: with unequal ones Fisher orders tables by probability instead."""
    for n in (1, 4, 7):
        for x_a, x_b in itertools.product(range(n + 1), repeat=2):
            expected = fisher_exact([[x_a, n - x_a], [x_b, n - x_b]])[1]
            assert within_task(*arrays([(x_a, n, x_b, n)])).p_value == pytest.approx(expected)


def test_one_sample_is_mcnemars_test():
    for up, down in ((7, 1), (9, 0), (12, 5), (0, 0)):
        tables = [(0, 1, 1, 1)] * up + [(1, 1, 0, 1)] * down + [(1, 1, 1, 1)] * 3
        expected = binomtest(up, up + down).pvalue if up + down else 1.0
        assert within_task(*arrays(tables)).p_value == pytest.approx(expected)


def test_two_tasks_that_are_always_killed_are_evidence():
    tables = [(60, 60, 0, 60)] * 2 + [(0, 60, 0, 60)] * 87
    assert within_task(*arrays(tables)).p_value < 1e-60


def test_what_no_result_could_reach():
    """One success in one task: whichever set it fell to, p is 1."""
    found = within_task(*arrays([(1, 5, 0, 5), (0, 5, 0, 5)]))
    assert (found.p_value, found.smallest_p) == (1.0, 1.0)


def test_drawing_agrees_with_the_exact_test(monkeypatch):
    generator = np.random.default_rng(1)
    n_a, n_b = generator.integers(1, 6, 30), generator.integers(1, 6, 30)
    x_a, x_b = generator.binomial(n_a, 0.4), generator.binomial(n_b, 0.6)
    exact = within_task(x_a, n_a, x_b, n_b)
    monkeypatch.setattr(within, "MOST_WORK", 0)
    drawn = within_task(x_a, n_a, x_b, n_b)
    assert (exact.exact, drawn.exact) == (True, False)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.006)
    assert within_task(x_a, n_a, x_b, n_b) == drawn
    assert within_task(x_b, n_b, x_a, n_a) == drawn
    same = arrays([(1, 4, 3, 4)] * 12 + [(2, 4, 2, 4)] * 5)
    few = within_task(*same)
    monkeypatch.undo()
    assert few.p_value == pytest.approx(within_task(*same).p_value, abs=0.006)


def test_unequal_samples_have_a_p_value():
    generator = np.random.default_rng(2)
    n_a, n_b = generator.integers(1, 13, 89), generator.integers(1, 13, 89)
    x_a, x_b = generator.binomial(n_a, 0.5), generator.binomial(n_b, 0.5)
    assert 0 < within_task(x_a, n_a, x_b, n_b).p_value <= 1


def test_many_tasks_are_exact():
    generator = np.random.default_rng(3)
    n = np.full(10_000, 10)
    p = generator.beta(0.5, 0.5, 10_000)
    x_a, x_b = generator.binomial(n, p), generator.binomial(n, p)
    found = within_task(x_a, n, x_b, n)
    assert found.exact
    shares = x_b / 10 - x_a / 10
    m = x_a + x_b
    variance = float((m * (20 - m) / (400 * 19) * 20 * 20 * 0.2 / 20).sum())
    z = abs(shares.sum()) / math.sqrt(variance)
    assert found.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.01)


def test_a_cell_of_one_sample_counts_by_its_difference():
    found = precision(*arrays([(0, 1, 3, 3), (1, 2, 1, 2)]))
    variance = 1.0 + 2 * 0.25
    h2 = (1 + 1 / 3 + 1 / 2 + 1 / 2) / 2 / 2
    assert found.plain == pytest.approx(math.sqrt(variance) / 2)
    assert found.floor == pytest.approx(math.sqrt(variance + 2 * h2) / 4)
    assert found.df == 4


def test_one_sample_everywhere_says_nothing_of_its_spread():
    assert precision(*arrays([(0, 1, 1, 1)] * 5)) is None
