"""What must not matter does not matter, to the last digit."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import merged, shuffled, study

from pytest_infranoise.analysis import Measure, analyse, verdict_lines
from pytest_infranoise.statistics import drift, spread

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True, scope="module")
def few_resamples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drift, "RESAMPLES", 99)
        patch.setattr(spread, "RESAMPLES", 99)
        yield


SETS = ("1x", "2x", "uncapped")
cell = st.tuples(*(st.integers(0, 3) for _ in range(5)))


@st.composite
def studies(draw):
    tasks = draw(st.integers(1, 7))
    rows = [(f"t{task}", name, *draw(cell)) for task in range(tasks) for name in SETS]
    return study(rows, timed=True)


def facts(analysis, rename=None):
    """Everything an analysis says, with tasks renamed back."""
    table = analysis.to_json()
    for comparison in table["comparisons"]:
        for kind, names in comparison["moved"].items():
            comparison["moved"][kind] = sorted((rename or {}).get(name, name) for name in names)
        for shift in comparison["moved_beyond_chance"]:
            shift["task"] = (rename or {}).get(shift["task"], shift["task"])
        comparison["moved_beyond_chance"].sort(key=lambda shift: shift["task"])
    return {key: value for key, value in table.items() if key != "duplicates"}


@given(studies(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_order_of_trials_and_duplicates_change_nothing(table, source):
    order = list(range(len(table)))
    source.shuffle(order)
    twice = order[: len(order) // 3]
    again = analyse(shuffled(table, order, twice))
    assert facts(again) == facts(analyse(table))
    assert again.duplicates == len(twice)


@given(studies(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_names_and_order_of_tasks_change_nothing(table, source):
    original = analyse(table)
    names = [f"other-{index}" for index in range(len(table.tasks))]
    source.shuffle(names)
    back = dict(zip(names, table.tasks, strict=True))
    position = list(range(len(names)))
    source.shuffle(position)
    renamed = shuffled(table, range(len(table)))
    renamed.tasks = [names[index] for index in position]
    for row, task in enumerate(table.task):
        renamed.task[row] = position.index(task)
    assert facts(analyse(renamed), back) == facts(original)


@given(studies(), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_splitting_and_merging_change_nothing(table, seed):
    source = random.Random(seed)
    here = [source.random() < 0.5 for _ in range(len(table))]
    parts = [
        shuffled(table, [i for i, first in enumerate(here) if first is which])
        for which in (True, False)
    ]
    whole = facts(analyse(table))
    assert facts(analyse(merged(*parts))) == whole
    assert facts(analyse(merged(*parts[::-1], parts[0]))) == whole


@given(studies())
@settings(max_examples=60, deadline=None)
def test_swapping_two_sets_flips_signs_only(table):
    forward = analyse(table, baseline="1x")
    backward = analyse(table, baseline="2x")
    if not forward.comparisons or not backward.comparisons:
        return
    one, other = forward.comparison("2x"), backward.comparison("1x")
    for a, b in zip((*one.measures, one.oom), (*other.measures, other.oom), strict=True):
        if a.difference is None:
            assert b.difference is None
            continue
        assert b.difference == -a.difference
        assert b.se == (None if a.se is None else pytest.approx(a.se))
        assert b.p_value == pytest.approx(a.p_value)
        assert (b.p_tost, b.mde80, b.n_differing) == pytest.approx(
            (a.p_tost, a.mde80, a.n_differing)
        )
        if a.ci95 is not None:
            assert b.ci95 == pytest.approx((-a.ci95[1], -a.ci95[0]))


@given(studies())
@settings(max_examples=60, deadline=None)
def test_rates_and_differences_add_up(table):
    result = analyse(table)
    for item in result.sets:
        if item.success is not None:
            total = item.success.macro + item.infra_error.macro + item.agent_failure.macro
            assert total == pytest.approx(1.0)
            assert sum(item.outcomes.values()) == item.n_trials
    for comparison in result.comparisons:
        differences = [measure.difference for measure in comparison.measures]
        if None not in differences:
            assert sum(differences) == pytest.approx(0.0, abs=1e-12)


@given(studies())
@settings(max_examples=60, deadline=None)
def test_every_study_has_sentences(table):
    for baseline in (None, "uncapped"):
        lines = verdict_lines(analyse(table, baseline=baseline), verbosity=2)
        assert lines
        text = "\n".join(lines)
        assert not any(word in text.split() for word in ("nan", "inf", "None", "-inf"))


def test_a_trial_counts_once_per_measure():
    table = study([("a", "1x", 1, 1, 1, 1, 1), ("a", "3x", 5, 0, 0, 0, 0)])
    result = analyse(table).set("1x")
    assert result.success.macro == pytest.approx(0.2)
    assert result.infra_error.macro == pytest.approx(0.4)
    assert result.agent_failure.macro == pytest.approx(0.4)
    assert analyse(table).comparison("3x").success.measure is Measure.SUCCESS
