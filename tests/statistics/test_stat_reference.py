"""Every reference case of the pure methods; S10's score and S11 are in tests/analysis."""

import pytest
from stat_cases import CASES, TOLERANCE, cells

from pytest_infranoise.statistics.contrasts import paired_contrast
from pytest_infranoise.statistics.equivalence import p_tost
from pytest_infranoise.statistics.intervals import (
    clopper_pearson,
    fixed_task_se,
    newcombe,
    rate,
    wilson,
)
from pytest_infranoise.statistics.multiplicity import benjamini_hochberg, holm
from pytest_infranoise.statistics.paired import compare
from pytest_infranoise.statistics.power import minimum_detectable_effect
from pytest_infranoise.statistics.tables import (
    cochran_armitage,
    cochran_mantel_haenszel,
    fisher_exact,
)

pytestmark = pytest.mark.filterwarnings("error")


def near(expected):
    return pytest.approx(expected, abs=TOLERANCE, rel=0)


def test_every_reference_case_is_covered():
    here = {"S01", "S02", "S03", "S04", "S05", "S06", "S07", "S08", "S09", "S10"}
    assert here | {"S11"} == set(CASES)


@pytest.mark.parametrize("case", CASES["S01"]["expected"])
def test_intervals_of_one_proportion(case):
    x, n = case["x"], case["n"]
    assert wilson(x / n, n) == near(case["wilson95"])
    assert clopper_pearson(x, n) == near(case["clopper_pearson95"])


@pytest.mark.parametrize("case", CASES["S02"]["expected"])
def test_newcombe(case):
    low_high = newcombe(case["x1"] / case["n1"], case["n1"], case["x2"] / case["n2"], case["n2"])
    assert low_high == near(case["ci95"])


@pytest.mark.parametrize("case", CASES["S04"]["expected"])
def test_fisher(case):
    assert fisher_exact(case["x1"], case["n1"], case["x2"], case["n2"]) == near(case["p"])


@pytest.mark.parametrize("name", ["S03", "S05", "S08", "S10"])
def test_paired_comparison(name):
    case = CASES[name]
    expected = case["expected"]
    (x_a, n_a), (x_b, n_b) = cells(case, "1x"), cells(case, "3x")
    result = compare(paired_contrast(x_a, n_a, x_b, n_b))
    assert result.se is not None
    tost = p_tost(result.difference, result.se.value, result.n_tasks - 1, 0.03)
    assert result.n_tasks == expected["n_tasks"]
    assert result.n_differing == expected["n_nonzero"]
    assert result.difference == near(expected["diff"])
    assert result.se.t == near(expected["se_t"])
    assert result.se.floor == near(expected["se_floor"])
    assert result.se.value == near(expected["se"])
    assert result.p_value == near(expected["p_signflip"])
    assert result.ci95 == near(expected["ci95"])
    assert result.ci90 == near(expected["ci90"])
    assert tost == near(expected["p_tost"])
    assert (tost < 0.05) is expected["equivalent"]
    assert minimum_detectable_effect(result.se.value) == near(expected["mde80"])
    if expected["p_t"] is None:
        assert result.p_t is None
    else:
        assert result.p_t == near(expected["p_t"])


def test_cochran_mantel_haenszel():
    case = CASES["S06"]
    result = cochran_mantel_haenszel(*cells(case, "1x"), *cells(case, "3x"))
    assert result is not None
    assert result.statistic == near(case["expected"]["chisq"])
    assert result.p_value == near(case["expected"]["p"])
    assert result.odds_ratio == near(case["expected"]["or_b_vs_a"])


@pytest.mark.parametrize("case", CASES["S07"]["expected"])
def test_corrections(case):
    assert holm(case["p"]) == near(case["holm"])
    assert list(benjamini_hochberg(case["p"])) == near(case["bh"])


def test_cochran_armitage():
    case = CASES["S09"]["expected"]
    result = cochran_armitage(case["x"], case["n"], case["scores"])
    assert result is not None
    assert result.statistic == near(case["chisq"])
    assert result.p_value == pytest.approx(case["p"], rel=1e-6)


def test_score_where_everything_passes():
    case = CASES["S10"]
    expected = case["expected"]["score_1x"]
    result = rate(*cells(case, "1x"))
    assert result is not None
    assert (result.n_tasks, result.n_trials) == (expected["n_tasks"], expected["n_trials"])
    assert result.macro == near(expected["macro"])
    assert result.micro == near(expected["micro"])
    assert result.se_task == near(expected["se_task"])
    assert result.se_fixed == near(expected["se_fixed"])
    assert result.deff == near(expected["deff"])
    assert result.n_eff == near(expected["n_eff"])
    assert result.ci95 == near(expected["wilson_neff95"])
    assert result.assumes_independence


@pytest.mark.parametrize("name", ["S05", "S08", "S10"])
def test_fixed_task_standard_error_of_a_difference(name):
    case = CASES[name]
    parts = [fixed_task_se(*cells(case, column)) for column in ("1x", "3x")]
    combined = (parts[0] ** 2 + parts[1] ** 2) ** 0.5
    assert combined == near(case["expected"]["se_fixed"])
