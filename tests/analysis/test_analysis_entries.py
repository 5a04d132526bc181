import numpy as np
import pytest
from made import CASES, study
from scipy import stats

from pytest_infranoise.analysis import AnalysisSettings, analyse
from pytest_infranoise.analysis.entries import (
    Infrastructure,
    Lead,
    compare_entries,
    compare_published,
    interaction,
)
from pytest_infranoise.analysis.planning import Design, plan, variance_of
from pytest_infranoise.errors import UsageError
from pytest_infranoise.statistics.power import TrialVariance

pytestmark = pytest.mark.filterwarnings("error")


def entry(passed_at, *, tasks=60, samples=5, seed=1, reverse=False):
    """A study whose success in each set is `passed_at[set]`, spread over tasks by a fixed seed."""
    generator = np.random.default_rng(seed)
    shape = generator.beta(2, 2, tasks)
    rows = []
    for index in range(tasks):
        for name, score in passed_at.items():
            p = np.clip(score + 0.6 * (shape[index] - 0.5), 0, 1)
            passed = round(float(samples * p))
            rows.append((f"t{index}", name, passed, samples - passed, 0, 0, 0))
    return study(rows[::-1] if reverse else rows)


def lead(difference, band, half_width=0.0, *, match=False):
    a, b = entry({"1x": 0.5}), entry({"1x": 0.5 + difference}, reverse=True)
    (found,) = compare_entries(
        a, b, [("1x", "1x")], infrastructure=Infrastructure(band, half_width, match)
    )
    return found


def test_entries_are_paired_by_task_name():
    found = lead(0.2, 0.02)
    assert found.contrast.n_tasks == 60
    assert found.contrast.difference == pytest.approx(0.2, abs=0.03)
    assert found.contrast.ci95[1] - found.contrast.ci95[0] == pytest.approx(2 * found.half_width)
    assert found.half_width < 0.09  # only the samples are random


@pytest.mark.parametrize(
    ("difference", "band", "expected"),
    [
        (0.2, 0.02, Lead.BEYOND_BOTH),
        (0.2, -0.02, Lead.BEYOND_BOTH),
        (0.2, 0.19, Lead.BEYOND_SAMPLING),
        (0.2, -0.3, Lead.BEYOND_SAMPLING),
        (0.0, 0.02, Lead.WITHIN_SAMPLING),
        (0.2, None, Lead.BEYOND_SAMPLING_BAND_UNKNOWN),
        (0.0, None, Lead.WITHIN_SAMPLING),
    ],
)
def test_a_lead_is_held_against_the_sum(difference, band, expected):
    found = lead(difference, band)
    assert found.lead is expected
    assert found.sceptical is (band is None and abs(found.contrast.difference) < 0.03)


def test_a_band_counts_with_its_own_half_width():
    room = abs(lead(0.2, None).contrast.difference) - lead(0.2, None).half_width
    assert lead(0.2, room - 0.03, 0.02).lead is Lead.BEYOND_BOTH
    assert lead(0.2, room - 0.03, 0.04).lead is Lead.BEYOND_SAMPLING


@pytest.mark.parametrize("band", [None, 0.5])
def test_matching_configurations_are_decided_by_sampling_alone(band):
    assert lead(0.2, band, match=True).lead is Lead.BEYOND_SAMPLING_MATCHED
    even = lead(0.0, band, match=True)
    assert (even.lead, even.sceptical) == (Lead.WITHIN_SAMPLING, False)


def test_no_common_task_decides_nothing():
    a, b = entry({"1x": 0.5}), entry({"1x": 0.5})
    b.tasks = [f"other-{name}" for name in b.tasks]
    (found,) = compare_entries(a, b, [("1x", "1x")])
    assert found.lead is Lead.UNDEFINED
    assert interaction(a, b, from_sets=("1x", "1x"), to_sets=("1x", "1x")) is None
    with pytest.raises(UsageError, match="'3x' is not a parameter set of this study; it has 1x"):
        compare_entries(a, a, [("1x", "3x")])


def test_interaction_is_the_difference_of_two_lifts():
    a, b = entry({"1x": 0.4, "3x": 0.5}, seed=3), entry({"1x": 0.4, "3x": 0.8}, seed=4)
    found = interaction(a, b, from_sets=("1x", "1x"), to_sets=("3x", "3x"))
    lifts = [analyse(table).comparison("3x").success.difference for table in (a, b)]
    assert found.difference == pytest.approx(lifts[1] - lifts[0])
    assert found.n_tasks == 60
    swapped = interaction(b, a, from_sets=("1x", "1x"), to_sets=("3x", "3x"))
    assert swapped.difference == -found.difference
    assert swapped.p_value == found.p_value
    assert found.se.value > 0


def test_interaction_holds_its_level():
    generator = np.random.default_rng(7)
    rejected = 0
    for _ in range(200):
        p = generator.beta(1, 1, 30)
        tables = []
        for _ in range(2):
            rows = [
                (f"t{i}", name, passed, 4 - passed, 0, 0, 0)
                for name in ("1x", "3x")
                for i, passed in enumerate(generator.binomial(4, p))
            ]
            tables.append(study(rows))
        found = interaction(*tables, from_sets=("1x", "1x"), to_sets=("3x", "3x"))
        rejected += found.p_value < 0.05
    assert rejected <= stats.binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize(
    ("scores", "band", "expected", "sceptical"),
    [
        ((0.582, 0.569), None, Lead.WITHIN_SAMPLING, True),
        ((0.30, 0.70), None, Lead.BEYOND_SAMPLING_BAND_UNKNOWN, False),
        ((0.30, 0.70), 0.06, Lead.BEYOND_BOTH, False),
        ((0.70, 0.30), 0.06, Lead.BEYOND_BOTH, False),
        ((0.45, 0.62), 0.06, Lead.BEYOND_SAMPLING, False),
    ],
)
def test_published_scores(scores, band, expected, sceptical):
    found = compare_published(*scores, n_tasks=89, samples=5, infrastructure=Infrastructure(band))
    assert (found.lead, found.sceptical) == (expected, sceptical)
    assert found.ci95[0] < found.ci95_independent[0] < found.difference


@pytest.mark.parametrize(
    ("scores", "tasks", "samples"), [((58.2, 0.5), 89, 5), ((0.5, 0.5), 0, 5), ((0.5, 0.5), 9, 0)]
)
def test_published_scores_must_make_sense(scores, tasks, samples):
    with pytest.raises(UsageError, match="compare: "):
        compare_published(*scores, n_tasks=tasks, samples=samples)


def test_plan_of_the_articles_design():
    found = plan(
        Design(
            n_tasks=89,
            n_sets=3,
            effect=0.02,
            seconds_per_trial=600,
            parallel=8,
            cost_per_trial=0.5,
        )
    )
    assert [row.samples for row in found.rows] == [1, 3, 5, 10, 20]
    five = found.rows[2]
    assert five.trials == 1335
    assert five.hours == pytest.approx(1335 * 600 / 8 / 3600)
    assert five.cost == pytest.approx(667.5)
    assert five.detectable == pytest.approx(0.0594, abs=1e-4)
    assert found.samples_for_equivalence == 22
    assert found.samples_for_difference == 45
    assert [row.detectable for row in found.rows] == sorted(
        (row.detectable for row in found.rows), reverse=True
    )
    table = found.to_json()
    assert table["variance_assumed"] is True
    assert table["rows"][2]["trials"] == 1335


def test_plan_from_a_study_uses_its_variances():
    analysis = analyse(study(CASES["S11"]["input"]["rows"]))
    measured = variance_of(analysis)
    assert not measured.assumed
    # 100 of 200 tasks pass or fail always: few trials vary.
    assert measured.value < 0.1
    found = plan(Design(n_tasks=200, n_sets=4, variance=measured))
    assert found.rows[2].hours is None
    assert found.rows[2].cost is None
    assert variance_of(analyse(study([("a", "1x", 1, 0, 0, 0, 0)]))) == TrialVariance()


@pytest.mark.parametrize(
    ("design", "samples"),
    [
        ({"n_tasks": 1, "n_sets": 2}, (5,)),
        ({"n_tasks": 9, "n_sets": 1}, (5,)),
        ({"n_tasks": 9, "n_sets": 2, "effect": 0.0}, (5,)),
        ({"n_tasks": 9, "n_sets": 2, "margin": 3}, (5,)),
        ({"n_tasks": 9, "n_sets": 2, "parallel": 0}, (5,)),
        ({"n_tasks": 9, "n_sets": 2}, (0,)),
    ],
)
def test_plans_that_make_no_sense(design, samples):
    with pytest.raises(UsageError, match="plan: "):
        plan(Design(**design), samples)


def test_copies_do_not_narrow_a_comparison():
    a, b = entry({"1x": 0.5}, samples=20), entry({"1x": 0.55}, samples=20)
    settings = AnalysisSettings(fit_only=True)
    (once,) = compare_entries(a, b, [("1x", "1x")], settings=settings)
    (twenty,) = compare_entries(a, b, [("1x", "1x")])
    assert once.contrast.se_floor > twenty.contrast.se_floor
