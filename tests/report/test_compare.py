"""Two entries side by side: the right sentence, and no difference unsaid."""

import random

import pytest

from pytest_infranoise.analysis import analyse
from pytest_infranoise.analysis.entries import Lead
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.table import OutcomeTable
from pytest_infranoise.report.card import make_card
from pytest_infranoise.report.compare import (
    compare_cards,
    compare_scores,
    compare_views,
    required_band,
)
from pytest_infranoise.report.compare_words import comparison_json, comparison_lines
from pytest_infranoise.report.view import StudyView, analysis_settings
from pytest_infranoise.study.configuration import Weight

NAMES = ("ours", "theirs")
TASKS = 120
SAMPLES = 6


def a_manifest(**values):
    return {
        "schema_version": 1,
        "study": "s",
        "agent": {"name": "agent"},
        "backend": {"backend": "docker", "engine": "docker 20", "cgroup_version": 2,
                    "enforcement": "hard limit"},
        "host": {"cpu_model": "a", "kernel": "6"},
        "workers": 4,
        "order": "interleaved",
        "disclosed": {"inference-endpoint": "x"},
        "baseline": "1x",
        "parameter_sets": [{"id": "1x"}, {"id": "3x"}],
        "equal_sets": [],
        "tasks": [
            {"name": f"t{number}", "digest": "d",
             "limits": {name: {"effective": {"memory_limit_bytes": 1}} for name in ("1x", "3x")}}
            for number in range(TASKS)
        ],
        "ended_at": "x",
        **values,
    }  # fmt: skip


def a_view(rates, *, seed=0, sets=("1x", "3x"), **values):
    """A study whose tasks pass by these rates, per set; harder tasks fail more in all of them."""
    chance = random.Random(seed)
    table = OutcomeTable(tasks=[f"t{n}" for n in range(TASKS)], parameter_sets=list(sets))
    for task in range(TASKS):
        shift = 0.3 * (task / (TASKS - 1) - 0.5)
        for index, rate in enumerate(rates):
            for sample in range(1, SAMPLES + 1):
                passed = chance.random() < rate + shift
                outcome = Outcome.PASSED if passed else Outcome.FAILED
                table.add(task, index, outcome, sample=sample, oom_kills=0)
    manifest = a_manifest(**values)
    settings = analysis_settings(manifest, baseline=sets[0])
    return StudyView(manifest, table, analyse(table, baseline=sets[0], settings=settings))


def texts(report):
    return [line.text for line in comparison_lines(report)]


def leads(report):
    return {item.set_a: item.lead for item in report.entries}


def test_the_three_sentences():
    small, large = a_view([0.4, 0.42], seed=1), a_view([0.7, 0.72], seed=2, workers=8)
    assert leads(compare_views(small, large, NAMES))["1x"] is Lead.BEYOND_BOTH
    banded = a_view([0.4, 0.8], seed=3)
    ahead = a_view([0.6, 0.6], seed=4, workers=8)
    report = compare_views(banded, ahead, NAMES)
    assert leads(report)["1x"] is Lead.BEYOND_SAMPLING
    assert any("larger than sampling noise only" in text for text in texts(report))
    twin = compare_views(a_view([0.5, 0.5], seed=5), a_view([0.5, 0.5], seed=6), NAMES)
    assert leads(twin)["1x"] is Lead.WITHIN_SAMPLING
    assert any("not larger than sampling noise" in text for text in texts(twin))


def test_matching_configurations_need_no_band():
    banded, ahead = a_view([0.4, 0.8], seed=3), a_view([0.6, 0.6], seed=4)
    report = compare_views(banded, ahead, NAMES)
    assert (report.match, report.band) == (True, None)
    assert leads(report)["1x"] is Lead.BEYOND_SAMPLING_MATCHED
    assert any("; configurations match)" in text for text in texts(report))
    assert not any("held against" in text or "unknown" in text for text in texts(report))
    found = comparison_json(report)["comparisons"][0]
    assert (found["band"], found["configurations_match"]) == (None, True)


def test_one_set_decides_and_the_others_describe():
    a, b = a_view([0.5, 0.5], seed=1), a_view([0.5, 0.9], seed=2, workers=8)

    def judged(**options):
        report = compare_views(a, b, NAMES, **options)
        found = comparison_json(report)["comparisons"]
        return {row["set_a"]: row["lead"] for row in found}, texts(report)

    leads_found, lines = judged()
    assert leads_found == {"1x": "within_sampling", "3x": None}
    assert sum("the difference is" in text for text in lines) == 1
    assert any(text.startswith("1x decides; the others are description") for text in lines)
    leads_found, lines = judged(at="3x")
    assert list(leads_found) == ["1x", "3x"]
    assert leads_found["1x"] is None
    assert leads_found["3x"] is not None
    with pytest.raises(UsageError, match="--at: '9x' is not compared; compared are 1x, 3x"):
        compare_views(a, b, NAMES, at="9x")


def test_one_card_decides_and_the_others_describe():
    a, b = (make_card(a_view([0.5, 0.6], seed=seed, workers=seed)) for seed in (1, 2))
    found = comparison_json(compare_cards(a, b, NAMES, at="3x"))["comparisons"]
    assert [row["lead"] is None for row in found] == [True, False]
    with pytest.raises(UsageError, match="--at: '9x' is not compared; compared are 1x, 3x"):
        compare_cards(a, b, NAMES, at="9x")


def test_the_first_set_of_the_ladder_decides_in_whatever_order_they_ran():
    ids = [{"id": name, "memory_multiplier": factor, "cpu_multiplier": factor}
           for name, factor in (("3x", 3.0), ("1x", 1.0))]  # fmt: skip
    a, b = (a_view([0.6, 0.5], seed=seed, sets=("3x", "1x"), parameter_sets=ids) for seed in (1, 2))
    assert compare_views(a, b, NAMES).decides == ("1x", "1x")


def test_the_contrast_of_the_very_sets_is_the_band_where_it_was_measured():
    sets, ids = ("1x", "3x", "5x"), [{"id": name} for name in ("1x", "3x", "5x")]
    tasks = [
        {"name": f"t{number}", "digest": "d",
         "limits": {name: {"effective": {"memory_limit_bytes": 1}} for name in sets}}
        for number in range(TASKS)
    ]  # fmt: skip
    a, b = (
        a_view([0.4, 0.5, 0.9], seed=seed, sets=sets, parameter_sets=ids, tasks=tasks)
        for seed in (1, 2)
    )
    report = compare_views(a, b, NAMES, pairs=[("1x", "5x")])
    assert {(band.floor, band.ceiling) for band in report.bands} == {("1x", "5x")}


def test_the_larger_band_counts_unless_one_is_named():
    flat, banded = a_view([0.4, 0.42], seed=1), a_view([0.6, 0.9], seed=2, workers=8)
    report = compare_views(flat, banded, NAMES)
    assert report.band.source == "theirs"
    assert report.band.difference == pytest.approx(
        banded.analysis.noise_band.declared.contrast.difference
    )
    named = compare_views(flat, banded, NAMES, band_from=("third", a_view([0.5, 0.5], seed=9)))
    assert named.band.source == "third"
    held = named.entries[0].infrastructure
    assert (held.band, held.half_width) == (abs(named.band.difference), named.band.half_width)
    assert held.half_width > 0
    assert leads(named)["1x"] is Lead.BEYOND_BOTH


def test_a_band_that_there_is_not():
    single = a_view([0.5], sets=("1x",), parameter_sets=[{"id": "1x"}])
    report = compare_views(single, a_view([0.9], sets=("1x",), workers=8), NAMES)
    assert report.band is None
    assert leads(report) == {"1x": Lead.BEYOND_SAMPLING_BAND_UNKNOWN}
    with pytest.raises(UsageError, match="single has no infrastructure band"):
        required_band("single", single)
    oracle = a_view([0.5, 0.9], agent={"name": "oracle"})
    with pytest.raises(UsageError, match="reference solution"):
        required_band("oracle", oracle)


def test_the_interaction_is_the_difference_of_the_lifts():
    report = compare_views(a_view([0.3, 0.3], seed=1), a_view([0.3, 0.7], seed=2), NAMES)
    (found,) = report.interactions
    assert (found.from_sets, found.to_sets) == (("1x", "1x"), ("3x", "3x"))
    assert found.result.difference == pytest.approx(0.4, abs=0.08)
    assert found.result.p_value < 1e-6
    assert any(text.startswith("interaction, 1x to 3x:") for text in texts(report))


def test_equal_configurations_say_so_and_leave_the_doubt_out():
    report = compare_views(a_view([0.5, 0.5], seed=1), a_view([0.51, 0.51], seed=2), NAMES)
    assert texts(report)[0] == "configurations: no difference"
    assert not any("scepticism" in text for text in texts(report))


def test_a_small_lead_on_unmatched_configurations_deserves_scepticism():
    other = a_view([0.51, 0.51], seed=2, workers=8)
    report = compare_views(a_view([0.5, 0.5], seed=1), other, NAMES)
    assert [item.field for item in report.differences] == ["workers"]
    small = [item for item in report.entries if abs(item.contrast.difference) < 0.03]
    assert small
    assert all(item.sceptical for item in small)
    lines = texts(report)
    assert "workers" in lines[1]
    assert any("deserves scepticism" in text for text in lines)


def test_the_agent_alone_is_what_is_compared():
    other = a_view([0.51, 0.51], seed=2, agent={"name": "another"})
    report = compare_views(a_view([0.5, 0.5], seed=1), other, NAMES)
    assert [item.field for item in report.differences] == ["agent name"]
    assert not any("scepticism" in text for text in texts(report))


def test_what_is_incomparable_is_said_above_the_figures():
    tasks = a_manifest()["tasks"]
    tasks[3]["digest"] = "other"
    other = a_view([0.51, 0.51], seed=2, tasks=tasks)
    report = compare_views(a_view([0.5, 0.5], seed=1), other, NAMES)
    (found,) = report.incomparable
    assert found.weight is Weight.INCOMPARABLE
    lines = texts(report)
    assert lines[1].startswith("makes incomparable")
    assert lines[2].startswith("incomparable: 1 difference")
    assert comparison_json(report)["comparable"] is False


def test_pairs_of_other_names():
    a = a_view([0.5, 0.6])
    b = a_view([0.5, 0.6], seed=4, sets=("small", "large"),
               parameter_sets=[{"id": "small"}, {"id": "large"}], baseline="small")  # fmt: skip
    with pytest.raises(UsageError, match=r"no parameter set in common: 1x, 3x and small, large"):
        compare_views(a, b, NAMES)
    report = compare_views(a, b, NAMES, pairs=[("1x", "small"), ("3x", "large")])
    assert [(item.set_a, item.set_b) for item in report.entries] == [
        ("1x", "small"), ("3x", "large"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="'9x' is not a parameter set"):
        compare_views(a, b, NAMES, pairs=[("9x", "small")])


def test_a_control_is_no_entry():
    sets = ("1x", "1x-aa", "3x")
    ids = [{"id": name} for name in sets]
    views = [
        a_view([0.5, 0.5, 0.6], seed=seed, sets=sets, parameter_sets=ids, control="1x-aa")
        for seed in (1, 2)
    ]
    report = compare_views(*views, NAMES)
    assert [item.set_a for item in report.entries] == ["1x", "3x"]


def test_cards_are_compared_unpaired_and_field_by_field():
    a, b = (make_card(a_view([0.5, 0.6], seed=seed)) for seed in (1, 2))
    report = compare_cards(a, b, NAMES)
    assert all(item.weight is not Weight.INCOMPARABLE for item in report.differences)
    assert [item.set_a for item in report.scores] == ["1x", "3x"]
    assert {item.n_tasks for item in report.scores} == {TASKS}
    assert report.band is not None
    other = make_card(a_view([0.5, 0.6], seed=3, workers=9))
    assert "workers" in [item.field for item in compare_cards(a, other, NAMES).differences]


def test_cards_of_other_tasks_or_limits_are_incomparable():
    a = make_card(a_view([0.5, 0.6]))
    tasks = a_manifest()["tasks"]
    tasks[0]["digest"] = "other"
    tasks[1]["limits"]["3x"]["effective"]["memory_limit_bytes"] = 2
    report = compare_cards(a, make_card(a_view([0.5, 0.6], tasks=tasks)), NAMES)
    assert [item.field for item in report.incomparable] == [
        "tasks, digest", "limits of 3x, digest",
    ]  # fmt: skip


def test_outsiders_see_what_they_do_not_know_first():
    report = compare_scores((0.582, 0.569), n_tasks=89, samples=5)
    lines = texts(report)
    assert all("unknown  unknown" in text for text in lines[1:11])
    assert "unpaired" in lines[11]
    assert any("deserves scepticism" in text for text in lines)
    assert comparison_json(report)["comparisons"][0]["paired"] is False
    large = compare_scores((0.2, 0.7), n_tasks=89, samples=5)
    assert not any("scepticism" in text for text in texts(large))


def test_names_cannot_steer_a_terminal():
    report = compare_views(
        a_view([0.5, 0.5]), a_view([0.5, 0.5], agent={"name": "\x1b[31mred\n"}), NAMES
    )
    assert all(text.isprintable() for text in texts(report))
