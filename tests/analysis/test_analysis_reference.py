"""The whole decision on the reference data."""

import json
import math

import pytest
from made import CASES, study

from pytest_infranoise.analysis import Measure, analyse

pytestmark = pytest.mark.filterwarnings("error")


def near(expected):
    return pytest.approx(expected, abs=1e-6, rel=0)


@pytest.fixture(scope="module")
def decided():
    return analyse(study(CASES["S11"]["input"]["rows"]))


@pytest.mark.parametrize("expected", CASES["S11"]["expected"]["configs"])
def test_every_set(decided, expected):
    result = decided.set(expected["config"])
    assert (result.n_tasks, result.n_trials) == (expected["n_tasks"], expected["n_trials"])
    assert result.success.macro == near(expected["success_macro"])
    assert result.infra_error.macro == near(expected["infra_macro"])
    rates = (result.success.macro, result.infra_error.macro, result.agent_failure.macro)
    assert math.fsum(rates) == near(1.0)


@pytest.mark.parametrize("name", ["2x", "3x", "uncapped"])
def test_every_comparison(decided, name):
    expected = CASES["S11"]["expected"]["comparisons"][name]
    item = decided.comparison(name)
    assert item.success.n_tasks == expected["n_tasks"]
    assert item.success.difference == near(expected["score_diff"])
    assert item.success.se == near(expected["score_se"])
    assert item.success.ci90 == near(expected["score_ci90"])
    assert item.success.p_value == near(expected["score_p"])
    assert item.success.p_holm == near(expected["score_p_holm"])
    assert item.success.p_tost == near(expected["p_tost"])
    assert item.success.equivalent is expected["equivalent"]
    assert item.success.status == expected["status"]
    assert item.infra_error.difference == near(expected["infra_diff"])
    assert item.infra_error.p_value == near(expected["infra_p"])
    assert item.infra_error.p_holm == near(expected["infra_p_holm"])
    assert item.agent_failure.difference == near(expected["agentfail_diff"])
    assert item.agent_failure.p_value == near(expected["agentfail_p"])
    recommendation = decided.recommendation
    assert (name in recommendation.infra_reduced) is expected["infra_reduced"]
    assert (name in recommendation.admissible) is expected["admissible"]


def test_recommendation(decided):
    expected = CASES["S11"]["expected"]
    assert decided.recommendation.status == expected["verdict"]
    assert decided.recommendation.parameter_set == expected["recommended"]
    assert bool(decided.recommendation.infra_reduced) is expected["any_infra_reduced"]


def test_score_where_everything_passes():
    expected = CASES["S10"]["expected"]["score_1x"]
    result = analyse(study(CASES["S10"]["input"]["rows"])).set("1x").success
    assert result.ci95 == near(expected["wilson_neff95"])
    assert result.assumes_independence


def test_json_has_the_documented_keys(decided):
    table = decided.to_json()
    assert json.loads(json.dumps(table, allow_nan=False))["n_trials"] == 4000
    assert {"trend", "spread", "noise_band", "recommendation", "parameter_sets"} <= set(table)
    assert {"status", "parameter_set", "why"} <= set(table["recommendation"])
    for comparison in table["comparisons"]:
        assert list(comparison["measures"]) == ["success", "infra_error", "agent_failure"]
        for values in comparison["measures"].values():
            assert {
                "n_tasks", "n_differing", "difference", "se", "ci95", "ci90", "p_value",
                "p_holm", "p_tost", "equivalent", "mde80", "status",
            } <= set(values)  # fmt: skip
    one = next(item for item in table["parameter_sets"] if item["id"] == "1x")
    assert one["success"]["value"] == near(0.5)
    rows = [row for row in CASES["S11"]["input"]["rows"] if row[1] == "1x"]
    names = ("passed", "failed", "timeout", "oom", "infra_error")
    totals = [sum(row[2 + index] for row in rows) for index in range(5)]
    assert one["outcomes"] == dict(zip(names, totals, strict=True))


def test_noise_band_and_ladder(decided):
    band = decided.noise_band
    assert (band.declared.floor, band.declared.ceiling) == ("1x", "3x")
    assert (band.extremes.floor, band.extremes.ceiling) == ("1x", "uncapped")
    assert band.extremes.contrast.difference == near(0.08)
    assert decided.spread[Measure.SUCCESS].spread == near(0.08)
    assert decided.trend[Measure.SUCCESS].slope.difference == near(0.028)
    assert decided.trend[Measure.INFRA_ERROR].slope.difference == near(-0.02)
