"""Data that prove nothing get a sentence: no NaN, no infinity, no warning, no traceback."""

import json

import pytest
from made import study

from pytest_infranoise.analysis import AnalysisSettings, RecommendationStatus, Status, analyse
from pytest_infranoise.analysis import verdict_lines as words
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.table import OutcomeTable

pytestmark = pytest.mark.filterwarnings("error")


def both(rows):
    return [(f"t{i}", name, *counts) for i, row in enumerate(rows) for name, counts in row.items()]


PASS, FAIL, OOM, NONE = (5, 0, 0, 0, 0), (0, 5, 0, 0, 0), (0, 0, 0, 5, 0), (0, 0, 0, 0, 0)
MIXED = (2, 2, 1, 0, 0)

DEGENERATE = {
    "one task": both([{"1x": PASS, "3x": FAIL}]),
    "one set": both([{"1x": PASS}, {"1x": FAIL}]),
    "one task, one set": both([{"1x": PASS}]),
    "all pass": both([{"1x": PASS, "3x": PASS}] * 6),
    "all fail": both([{"1x": FAIL, "3x": FAIL}] * 6),
    "all killed": both([{"1x": OOM, "3x": OOM, "uncapped": OOM}] * 6),
    "missing cells": both([{"1x": PASS, "3x": NONE}, {"1x": FAIL, "3x": PASS}, {"1x": NONE}]),
    "no common task": both([{"1x": PASS, "3x": NONE}, {"1x": NONE, "3x": PASS}]),
    "one common task": both([{"1x": FAIL, "3x": PASS}, {"1x": PASS, "3x": NONE}]),
    "unequal samples": both(
        [{"1x": (1, 0, 0, 0, 0), "3x": (3, 4, 0, 0, 0)}, {"1x": (2, 3, 0, 0, 0), "3x": PASS}]
    ),
    "zero variance, constant lift": both([{"1x": FAIL, "3x": PASS}] * 4),
    "one sample": both([{"1x": (1, 0, 0, 0, 0), "3x": (0, 0, 0, 1, 0)}] * 3),
    "a set that never ran": both([{"1x": PASS, "3x": PASS, "uncapped": NONE}] * 3),
    "uncapped only above": both([{"1x": MIXED, "uncapped": PASS}] * 3),
    "only below 1x": both([{"0.25x": OOM, "0.5x": MIXED}] * 3),
    "names of any kind": both([{"small": MIXED, "large": PASS, "huge": PASS}] * 3),
}


@pytest.mark.parametrize("rows", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("fit_only", [False, True])
def test_sentences_and_finite_numbers(rows, fit_only):
    for timed in (False, True):
        result = analyse(
            study(rows, kills=True, timed=timed), settings=AnalysisSettings(fit_only=fit_only)
        )
        json.dumps(result.to_json(), allow_nan=False)
        lines = words(result, verbosity=2)
        assert len(lines) >= 3
        for line in lines:
            assert line == line.strip()
            assert not {"nan", "inf", "None", "-inf"} & set(line.replace(",", " ").split())


def test_no_trial():
    assert words(analyse(OutcomeTable())) == ["no trial has an outcome: nothing to analyse"]
    named = OutcomeTable(tasks=["a"], parameter_sets=["1x", "3x"])
    assert words(analyse(named)) == ["no trial has an outcome: nothing to analyse"]
    assert analyse(named).to_json()["comparisons"][0]["measures"]["success"]["p_value"] is None


def test_one_task_is_fisher_without_interval_or_verdict():
    result = analyse(study(DEGENERATE["one task"]))
    contrast = result.comparison("3x").success
    assert contrast.status is Status.ONE_TASK
    assert contrast.p_value == pytest.approx(1 / 126)
    assert (contrast.ci95, contrast.p_adjusted, contrast.p_tost) == (None, None, None)
    assert result.recommendation.status is RecommendationStatus.NOT_APPLICABLE
    text = "\n".join(words(result))
    assert "this task only" in text
    assert "one task is too few for a recommendation" in text


def test_five_tasks_that_all_pass_prove_no_equivalence():
    result = analyse(study(both([{"1x": PASS, "3x": PASS}] * 5)))
    contrast = result.comparison("3x").success
    assert contrast.status is Status.INCONCLUSIVE
    assert contrast.ci95[1] > 0.1
    assert not contrast.equivalent


def test_no_common_task():
    result = analyse(study(DEGENERATE["no common task"]))
    assert result.comparison("3x").success.status is Status.NO_COMMON_TASK
    assert result.comparison("3x").n_dropped == 2
    assert "no task ran both" in "\n".join(words(result))


def test_one_set_has_a_score_and_no_comparison():
    result = analyse(study(DEGENERATE["one set"]))
    assert result.comparisons == ()
    assert result.set("1x").success.macro == 0.5
    assert "no multiplier above the baseline ran" in "\n".join(words(result))


def test_dropped_tasks_are_counted():
    rows = both([{"1x": PASS, "3x": FAIL}, {"1x": PASS, "3x": FAIL}, {"1x": PASS, "3x": NONE}])
    item = analyse(study(rows)).comparison("3x")
    assert (item.n_common, item.n_dropped) == (2, 1)
    assert item.success.baseline_value == 1.0


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"baseline": "4x"},
            "baseline: '4x' is not a parameter set of this study; use one of 1x, 3x",
        ),
        ({"settings": AnalysisSettings(control="aa")}, "control: 'aa'"),
        ({"settings": AnalysisSettings(dimension="disk")}, "dimension: 'disk'"),
        ({"settings": AnalysisSettings(ceiling="9x")}, "noise band: '9x'"),
    ],
)
def test_choices_that_name_nothing(choice, message):
    with pytest.raises(UsageError, match=message):
        analyse(study(both([{"1x": PASS, "3x": PASS}])), **choice)
