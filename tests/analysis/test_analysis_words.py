import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import CASES, study

from pytest_infranoise.analysis import AnalysisSettings, analyse, verdict_lines
from pytest_infranoise.analysis.figures import (
    bare_p,
    listed,
    p_value,
    percent,
    plural,
    points,
    span,
)
from pytest_infranoise.analysis.words import detail_lines
from pytest_infranoise.model.outcome import Outcome

NEVER = (
    "no difference", "same score", "within noise", "optimal", "caused by", "p = 0.000", "p = 0 ",
    "probability that", "infra noise is", "true ability",
)  # fmt: skip
ROWS = {name: case["input"]["rows"] for name, case in CASES.items() if "rows" in case["input"]}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize(
    "settings",
    [AnalysisSettings(), AnalysisSettings(fit_only=True), AnalysisSettings(margin=0.2)],
    ids=["default", "fit only", "wide margin"],
)
def test_words_that_are_never_used(rows, settings):
    text = "\n".join(verdict_lines(analyse(study(rows), settings=settings), verbosity=2))
    for words in NEVER:
        assert words not in text.lower()
    assert not re.search(r"\bp = 0(\.0+)?(?![.\d])", text)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "p < 1e-9"),
        (9e-10, "p < 1e-9"),
        (1.9073e-6, "p = 1.9e-6"),
        (2e-6, "p = 2e-6"),
        (0.0004996, "p = 5e-4"),
        (0.012, "p = 0.012"),
        (0.04996, "p = 0.0500"),
        (0.0496, "p = 0.0496"),
        (0.061, "p = 0.061"),
        (0.9999, "p = 1"),
        (1.0, "p = 1"),
    ],
)
def test_p_values(p, text):
    assert p_value(p) == text
    assert p_value(p) == f"p {bare_p(p)}" if "<" in text else f"p = {bare_p(p)}"


@given(st.floats(0, 1))
def test_a_p_value_is_never_printed_as_zero(p):
    shown = bare_p(p)
    assert shown == "< 1e-9" or float(shown) > 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0666, "+6.7"), (-0.012, "-1.2"), (0.0, "0.0"), (-0.0001, "0.0"), (0.00051, "+0.1")],
)
def test_points(value, text):
    assert points(value) == text


def test_small_words():
    assert percent(0.508) == "50.8%"
    assert span((-1.4, 0.119)) == "-100.0 to +11.9"
    assert (plural(1, "task"), plural(0, "task")) == ("1 task", "0 tasks")
    assert listed(("a", "b", "c"), at_most=2) == "a, b and 1 more"
    assert listed(("a", "b"), at_most=2) == "a, b"


def killed(*, known=True):
    rows = []
    for index in range(4):
        rows.append((f"t{index}", "1x", 1, 0, 0, 6 * (index < 3), 0))
        rows.append((f"t{index}", "3x", 6, 0, 0, int(index == 0), 0))
        rows.append((f"t{index}", "uncapped", 7, 0, 0, 0, 0))
    return study(rows, kills=known)


def test_kills_are_counted_before_anything_is_inferred():
    first = detail_lines(analyse(killed()))[0]
    assert first == "kills: 18 kills at 1x in 3 tasks, 1 at 3x in 1 task, none uncapped"
    unknown = detail_lines(analyse(killed(known=False)))[0]
    assert unknown == (
        "kills: at least 18 kills at 1x in 3 tasks, at least 1 at 3x in 1 task, "
        "not counted uncapped"
    )
    quiet = verdict_lines(analyse(killed()), verbosity=-1)
    heads = [line.split(":")[0] for line in quiet]
    assert heads == ["threshold", "score", "noise", "next"]
    assert len(quiet) < len(verdict_lines(analyse(killed())))


def test_the_allowed_sentences():
    text = verdict_lines(analyse(study(ROWS["S11"])), verbosity=1)
    assert text[:2] == [
        "threshold: set the kill threshold at 3x: it removes crashes (infra errors 6.0% at 1x, "
        "0.0% at 3x, p < 1e-9) and adds nothing beyond them; the score itself rises by +4.0: 1x "
        "under-measures this agent, the declared memory of these tasks is too small; uncapped "
        "makes the tasks easier, by at least +0.2 points beyond repair",
        "score: success 50.0% at 1x; 54.0% at 3x: +4.0 points (95% CI +2.1 to +5.9), p = 3.1e-5; "
        "58.0% uncapped: +8.0 points (95% CI +6.2 to +9.8), p < 1e-9",
    ]
    assert (
        "success 50.0% at 1x, 54.0% at 3x: +4.0 points (95% CI +2.1 to +5.9), p = 3.1e-5 "
        "(3.1e-5 in sequence), 200 tasks x 5 samples, paired by task"
    ) in text
    assert "3x: higher than at 1x" in text
    assert "memory and CPU scaled together; this study cannot separate them" in text


def two_tasks(before, after, *, steady=87, samples=5):
    """Two tasks with these counts at 1x and 3x, beside others of which half always pass."""
    rows = [(f"k{i}", n, *c) for i in range(2) for n, c in (("1x", before), ("3x", after))]
    return rows + [
        (f"s{i:02d}", n, samples * (i % 2), samples * (1 - i % 2), 0, 0, 0)
        for i in range(steady)
        for n in ("1x", "3x")
    ]


def test_two_tasks_that_are_always_killed_are_a_repair():
    """The sign-flip test over tasks gives them p = 0.5."""
    rows = two_tasks((0, 0, 0, 60, 0), (60, 0, 0, 0, 0), samples=60)
    result = analyse(study(rows))
    assert result.recommendation.status in ("repairs", "recommended")
    assert result.comparison("3x").infra_error.like_these.p_value == 0.5
    assert "infra errors 2.2% at 1x, 0.0% at 3x, p < 1e-9" in verdict_lines(result)[0]


def test_a_provisional_threshold_prints_its_bounds():
    rows = [(f"t{i:02d}", "1x", 2, 2, 0, int(i < 12), 1 * (i >= 12)) for i in range(24)]
    rows += [(f"t{i:02d}", "3x", 3, 2, 0, 0, 0) for i in range(24)]
    rows += [(f"t{i:02d}", "5x", 3, 2, 0, 0, 0) for i in range(24)]
    text = verdict_lines(analyse(study(rows)))
    assert text[0].startswith("threshold: provisionally 3x as the kill threshold: it removes crash")
    assert "beyond repair at most +" in text[0]
    assert text[3].startswith("next: --infra-samples=")
    assert "no sign" not in "\n".join(text)


def test_success_that_fell_is_said_first():
    rows = [(f"t{i:02d}", "1x", 5, 0, 0, 0, 0) for i in range(10)]
    rows += [(f"t{i:02d}", "3x", 2, 3, 0, 0, 0) for i in range(10)]
    text = verdict_lines(analyse(study(rows)))
    assert text[0].startswith("threshold: success fell at 3x (-60.0 points, p < 1e-9); ")


def test_what_no_result_could_reach():
    rows = [("a", "1x", 4, 0, 0, 1, 0), ("a", "3x", 5, 0, 0, 0, 0)]
    rows += [("b", name, 5, 0, 0, 0, 0) for name in ("1x", "3x")]
    text = "\n".join(verdict_lines(analyse(study(rows)), verbosity=1))
    assert text.count("no result could reach p < 0.05 here: more trials are needed") == 2
    assert "this design detects" not in text
    assert "would be found" not in text


def test_names_that_are_no_multipliers_get_no_threshold():
    rows = [(f"t{i}", n, p, 0, 0, 5 - p, 0) for i in range(9) for n, p in (("a", 0), ("b", 5))]
    text = verdict_lines(analyse(study(rows)))
    assert text[0] == (
        "threshold: none named: the names of these sets tell no multiplier, so no threshold can be "
        "named"
    )


def test_significant_and_equivalent():
    rows = [(f"t{i:03d}", "1x", 4, 1, 0, 0, 0) for i in range(400)]
    rows += [(f"t{i:03d}", "3x", 4 + (i < 40), 1 - (i < 40), 0, 0, 0) for i in range(400)]
    rows = [(t, n, 40 * (p == 5) + 32 * (p == 4), 8 * (p == 4), 0, 0, 0) for t, n, p, *_ in rows]
    text = verdict_lines(analyse(study(rows)), verbosity=1)
    assert any(line.endswith("detectable, but within the margin") for line in text)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (AnalysisSettings(interleaved=True), "sets were interleaved"),
        (AnalysisSettings(interleaved=False), "sets were run one after another"),
        (
            AnalysisSettings(unplanned_looks=6),
            "analysed 6 times while growing; p-values are nominal",
        ),
        (AnalysisSettings(unplanned_looks=1), "analysed once while growing"),
    ],
)
def test_scope(settings, line):
    text = "\n".join(verdict_lines(analyse(study(ROWS["S08"]), settings=settings)))
    assert line in text
    assert "applies to this agent, task set and host" in text


def test_tasks_are_named_where_the_move_is_beyond_chance():
    rows = [
        ("spike", "1x", 0, 0, 0, 5, 0), ("spike", "3x", 5, 0, 0, 0, 0),
        ("lost", "1x", 0, 0, 0, 5, 0), ("lost", "3x", 0, 5, 0, 0, 0),
        ("slow", "1x", 0, 0, 5, 0, 0), ("slow", "3x", 5, 0, 0, 0, 0),
        ("luck", "1x", 2, 3, 0, 0, 0), ("luck", "3x", 3, 2, 0, 0, 0),
    ]  # fmt: skip
    result = analyse(study(rows))
    assert (
        "tasks that moved (named where beyond chance): 3x: 1 rescued (spike), 1 doomed (lost), "
        "2 eased (slow)"
    ) in verdict_lines(result)
    text = verdict_lines(result, verbosity=1)
    assert "rescued: 1 task killed at 1x, passing more often at 3x: spike" in text
    assert "doomed: 1 task killed less at 3x than at 1x, but passing no more often: lost" in text
    assert "eased: 2 tasks passing more often at 3x without fewer kills: luck, slow" in text


def test_every_method_is_named_for_those_who_check():
    text = "\n".join(verdict_lines(analyse(study(ROWS["S11"])), verbosity=2))
    for word in (
        "sign-flip", "fixed sequence", "permutation test within tasks", "TOST",
        "Wilson", "floored", "design effect", "ICC",
        "Cochran-Mantel-Haenszel", "permutations", "degrees of freedom", "20 differ", "rank scores",
        "descriptive only", "declared noise band", "extremes",
    ):  # fmt: skip
        assert word in text, word


def test_what_to_run_next():
    def following(rows, **settings):
        lines = verdict_lines(analyse(study(rows), settings=AnalysisSettings(**settings)))
        return [line for line in lines if line.startswith("next: ")]

    assert following(ROWS["S11"]) == [
        "next: infranoise calibrate says by how much each task's memory is too small; declare "
        "that, and measure the score again"
    ]
    assert following(ROWS["S11"], fit_only=True) == [
        "next: run an agent (--infra-agent) with --infra-samples=5 or more"
    ]
    assert following(ROWS["S08"]) == [
        "next: nothing: publish the declared resources as they are, as guarantee and threshold"
    ]
    assert following([("a", "1x", 1, 0, 0, 0, 0)]) == []


def test_kills_that_trials_survived_are_no_all_clear():
    names = ("1x", "3x")
    table = study([(f"t{number}", name, 5, 0, 0, 0, 0) for number in range(8) for name in names])
    table.add(0, 0, Outcome.PASSED, sample=6, oom_kills=2)
    lines = verdict_lines(analyse(table))
    assert lines[0] == (
        "threshold: no trial at 1x was lost to its 2 kills, yet memory runs short there"
    )
    assert "next: infranoise calibrate says what each task needs" in lines


def test_a_study_in_which_nothing_passes_says_so():
    rows = [(task, name, 0, 2, 0, 0, 0) for task in "ab" for name in ("1x", "3x")]
    assert detail_lines(analyse(study(rows)))[1].startswith("no trial passed in any")


def test_fewer_timeouts_are_no_all_clear():
    rows = [(f"t{number}", "mem1x-cpu1x", 8, 0, 2, 0, 0) for number in range(20)]
    rows += [(f"t{number}", "mem1x-cpu3x", 10, 0, 0, 0, 0) for number in range(20)]
    lines = verdict_lines(analyse(study(rows)))
    assert lines[0].startswith("CPU limit: none to set: more resources make the tasks easier")
    assert any("timeouts fell from 40 at mem1x-cpu1x to 0" in line for line in lines)
    counted = analyse(study(rows), settings=AnalysisSettings(timeouts_are_infra=True))
    assert not any("timeouts fell" in line for line in verdict_lines(counted))
