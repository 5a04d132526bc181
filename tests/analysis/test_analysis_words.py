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


def test_the_first_line_counts_kills():
    first = verdict_lines(analyse(killed()))[0]
    assert first == "kills: 18 kills at 1x in 3 tasks, 1 at 3x in 1 task, none uncapped"
    unknown = verdict_lines(analyse(killed(known=False)))[0]
    assert unknown == (
        "kills: at least 18 kills at 1x in 3 tasks, at least 1 at 3x in 1 task, "
        "not counted uncapped"
    )
    quiet = verdict_lines(analyse(killed()), verbosity=-1)
    assert quiet[0] == first
    assert len(quiet) < len(verdict_lines(analyse(killed())))


def test_the_allowed_sentence():
    text = verdict_lines(analyse(study(ROWS["S11"])))
    assert (
        "success 50.0% at 1x, 54.0% at 3x: +4.0 points (95% CI +2.2 to +5.8), p = 1.9e-6 "
        "(Holm 5.7e-6), 200 tasks x 5 samples, paired by task"
    ) in text
    assert "2x: equivalent to 1x within +-3 points (90% CI -0.9 to +0.9)" in text
    assert "3x: higher than at 1x" in text
    assert "memory and CPU scaled together; this study cannot separate them" in text
    start = "recommended kill threshold: 2x of the declared spec: "
    assert any(line.startswith(start) for line in text)


def test_too_few_tasks_differ():
    line = next(line for line in verdict_lines(analyse(study(ROWS["S05"]))) if "3x: inc" in line)
    assert "5 tasks differ: no result could reach p < 0.05 (6 are needed)" in line
    assert "the data allow -1.1 to +59.4 points" in line


def test_significant_and_equivalent():
    rows = [(f"t{i:03d}", "1x", 4, 1, 0, 0, 0) for i in range(400)]
    rows += [(f"t{i:03d}", "3x", 4 + (i < 20), 1 - (i < 20), 0, 0, 0) for i in range(400)]
    text = verdict_lines(analyse(study(rows)))
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


def test_movement_is_named():
    rows = [
        ("spike", "1x", 0, 0, 0, 5, 0), ("spike", "3x", 5, 0, 0, 0, 0),
        ("lost", "1x", 0, 0, 0, 5, 0), ("lost", "3x", 0, 5, 0, 0, 0),
        ("slow", "1x", 0, 0, 5, 0, 0), ("slow", "3x", 5, 0, 0, 0, 0),
    ]  # fmt: skip
    text = verdict_lines(analyse(study(rows)))
    assert "rescued: 1 task killed at 1x, passing more often at 3x: spike" in text
    assert "doomed: 1 task killed less at 3x than at 1x, but passing no more often: lost" in text
    assert "eased: 1 task passing more often at 3x without fewer kills: slow" in text


def test_many_tasks_that_chance_may_have_moved_are_counted_only():
    rows = [(f"t{i:02d}", "1x", 2 + i % 2, 2, 0, 0, 0) for i in range(20)]
    rows += [(f"t{i:02d}", "uncapped", 3 - i % 2, 2, 0, 0, 0) for i in range(20)]
    result = analyse(study(rows))
    line = (
        "passing more often uncapped without fewer kills: 10, less often: 10 (chance moves tasks "
        "too; -v names them)"
    )
    assert line in verdict_lines(result)
    named = verdict_lines(result, verbosity=1)
    assert line not in named
    start = "worsened: 10 tasks passing less often uncapped than at 1x: t01, t03, "
    assert any(text.startswith(start) and text.endswith(" and 2 more") for text in named)


def test_every_method_is_named_for_those_who_check():
    text = "\n".join(verdict_lines(analyse(study(ROWS["S11"])), verbosity=2))
    for word in (
        "sign-flip", "Holm", "TOST", "Wilson", "floored", "design effect", "ICC",
        "Cochran-Mantel-Haenszel", "permutations", "80% power", "20 differ", "rank scores",
        "descriptive only", "fixed-task", "declared noise band", "extremes",
    ):  # fmt: skip
        assert word in text, word


def test_what_to_run_next():
    def following(rows, **settings):
        lines = verdict_lines(analyse(study(rows), settings=AnalysisSettings(**settings)))
        return [line for line in lines if line.startswith("next: ")]

    assert following(ROWS["S11"]) == [
        "next: repeat with another agent before publishing it for a benchmark"
    ]
    assert following(ROWS["S11"], fit_only=True) == [
        "next: run an agent (--infra-agent) with --infra-samples=5 or more"
    ]
    assert following(ROWS["S08"]) == [
        "next: nothing needs repair at 1x: no infra error in 50 trials (95% CI up to 7.1%)"
    ]
    assert following([("a", "1x", 1, 0, 0, 0, 0)]) == []


def test_kills_that_trials_survived_are_no_all_clear():
    names = ("1x", "3x")
    table = study([(f"t{number}", name, 5, 0, 0, 0, 0) for number in range(8) for name in names])
    table.add(0, 0, Outcome.PASSED, sample=6, oom_kills=2)
    lines = verdict_lines(analyse(table))
    assert (
        "next: no trial at 1x was lost to its 2 kills, yet memory runs short there: "
        "infranoise calibrate says what each task needs"
    ) in lines


def test_a_study_in_which_nothing_passes_says_so():
    rows = [(task, name, 0, 2, 0, 0, 0) for task in "ab" for name in ("1x", "3x")]
    assert verdict_lines(analyse(study(rows)), verbosity=-1)[1].startswith("no trial passed in any")


def test_fewer_timeouts_are_no_all_clear():
    rows = [(f"t{number}", "mem1x-cpu1x", 8, 0, 2, 0, 0) for number in range(20)]
    rows += [(f"t{number}", "mem1x-cpu3x", 10, 0, 0, 0, 0) for number in range(20)]
    lines = verdict_lines(analyse(study(rows)))
    assert any("no CPU limit above mem1x-cpu1x is supported" in line for line in lines)
    assert any("timeouts fell from 40 at mem1x-cpu1x to 0" in line for line in lines)
    counted = analyse(study(rows), settings=AnalysisSettings(timeouts_are_infra=True))
    assert not any("timeouts fell" in line for line in verdict_lines(counted))


def test_repaired_crashes_are_called_so():
    killed = [(f"k{number}", "1x", 0, 0, 0, 10, 0) for number in range(12)]
    repaired = [(f"k{number}", "2x", 10, 0, 0, 0, 0) for number in range(12)]
    steady = [(f"s{number}", name, 8, 2, 0, 0, 0) for number in range(88) for name in ("1x", "2x")]
    lines = verdict_lines(analyse(study([*killed, *repaired, *steady])))
    assert any(
        line.startswith(
            "next: at 2x success rose by +12.0 points while agent failures stayed equal"
        )
        for line in lines
    )
