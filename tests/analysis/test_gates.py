"""What becomes of gates: every form passes, fails and stays open where it should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import study

from pytest_infranoise.analysis import AnalysisSettings, RecommendationStatus, analyse
from pytest_infranoise.analysis.gate_grammar import parse_gate
from pytest_infranoise.analysis.gates import GateVerdict, judge, known_sets_of

PASSED, FAILED, OPEN = GateVerdict.PASSED, GateVerdict.FAILED, GateVerdict.UNDECIDED

# 10 tasks that are killed at 1x and fail anyway, 80 that pass everywhere: equivalent, recommended.
DOOMED = [
    row
    for number in range(10)
    for row in ((f"d{number}", "1x", 0, 0, 0, 1, 0), (f"d{number}", "3x", 0, 1, 0, 0, 0))
] + [(f"c{number}", name, 1, 0, 0, 0, 0) for number in range(80) for name in ("1x", "3x")]
# 10 tasks that the kill alone keeps from passing: success rises by 100 points.
RESCUED = [
    row
    for number in range(10)
    for row in ((f"r{number}", "1x", 0, 0, 0, 1, 0), (f"r{number}", "3x", 1, 0, 0, 0, 0))
]
# 6 tasks that are killed at 1x and pass at 3x, beside 90 steady ones: repaired, but not neutral.
REPAIRED = [
    row
    for number in range(6)
    for row in ((f"r{number}", "1x", 0, 0, 0, 9, 0), (f"r{number}", "3x", 9, 0, 0, 0, 0))
] + [(f"c{number}", name, 9, 0, 0, 0, 0) for number in range(90) for name in ("1x", "3x")]
CALM = [(f"c{number}", name, 4, 1, 0, 0, 0) for number in range(12) for name in ("1x", "3x")]


def verdict(rows, text, *, missing=0, kills=True, **choices):
    analysis = analyse(study(rows, kills=kills), settings=AnalysisSettings(**choices))
    gate = parse_gate(text, where="--gate", sets=known_sets_of(analysis))
    (result,) = judge(analysis, [gate], missing=missing)
    assert result.reason
    assert "\n" not in result.reason
    return result.verdict


@pytest.mark.parametrize(
    ("rows", "text", "expected"),
    [
        (DOOMED, "infra_error_rate<=2%@3x", PASSED),
        (DOOMED, "infra_error_rate<=2%@1x", FAILED),
        (DOOMED, "infra_error_rate<=2%", FAILED),  # every set counts
        (DOOMED, "infra_error_rate<=12%", PASSED),
        (RESCUED, "infra_error_rate>=100%@1x", PASSED),
        (RESCUED, "infra_error_rate>0@3x", FAILED),
        (DOOMED, "upper(infra_error_rate)<=5%@3x", PASSED),
        (RESCUED, "upper(infra_error_rate)<=5%@3x", FAILED),  # 0 of 10 says little
        (DOOMED, "lower(success_rate)>=80%@3x", PASSED),
        (DOOMED, "lower(success_rate)>=88%@3x", FAILED),
        (CALM, "success_rate>=80%", PASSED),  # 4 of 5 exactly
        (CALM, "success_rate>80%", FAILED),
        (CALM, "success_rate<=80%@3x", PASSED),
        (CALM, "success_rate<80%@3x", FAILED),
        (CALM, "agent_failure_rate<=20%@1x", PASSED),
        (CALM, "agent_failure_rate<=19%@1x", FAILED),
        (DOOMED, "no-oom@3x", PASSED),
        (DOOMED, "no-oom@1x", FAILED),
        (DOOMED, "no-oom", FAILED),
        (CALM, "no-oom", PASSED),
        (DOOMED, "no-kill@3x", PASSED),
        (DOOMED, "no-kill@1x", FAILED),
        (CALM, "no-kill", PASSED),
        (RESCUED, "lift(3x)>=50pp", PASSED),
        (RESCUED, "lift(3x)<=50pp", FAILED),
        (CALM, "lift(3x)>=-1pp", PASSED),
        (RESCUED, "lower(lift(3x))>50pp", PASSED),
        (CALM, "upper(lift(3x))<=0.1pp", FAILED),
        (DOOMED, "lift(3x)~0+-3pp", PASSED),
        (DOOMED, "lift(3x)~20pp+-3pp", FAILED),
        (RESCUED, "lift(3x)~0+-3pp", FAILED),
        (RESCUED, "lift(3x)~100pp+-99pp", PASSED),
        (CALM, "lift(3x)~0+-3pp", OPEN),  # 12 tasks cannot show it
        (DOOMED, "recommended", PASSED),
        (DOOMED, "recommended=3x", PASSED),
        (DOOMED, "recommended<=3x", PASSED),
        (DOOMED, "repairs", PASSED),  # what is shown is more than what is asked for
        (DOOMED, "repairs=3x", PASSED),
        (DOOMED, "provisional<=3x", PASSED),
        (DOOMED, "neutral", PASSED),
        (DOOMED, "neutral=3x", PASSED),
        (REPAIRED, "recommended", OPEN),
        (REPAIRED, "repairs", PASSED),
        (REPAIRED, "neutral", OPEN),
        (CALM, "repairs", FAILED),
        (CALM, "neutral", OPEN),
        (CALM, "recommended", FAILED),  # nothing needs repair
        (RESCUED, "recommended", OPEN),  # success moved as well: inconclusive
    ],
)
def test_the_verdict(rows, text, expected):
    assert verdict(rows, text) is expected


def test_another_set_was_recommended():
    rows = DOOMED + [(name, "5x", *counts) for name, at, *counts in DOOMED if at == "3x"]
    rows = [(name, {"3x": "2x", "5x": "3x"}.get(at, at), *counts) for name, at, *counts in rows]
    assert verdict(rows, "recommended=2x") is PASSED
    assert verdict(rows, "recommended=3x") is FAILED
    assert verdict(rows, "recommended<=3x") is PASSED


def test_a_larger_set_than_allowed_is_recommended():
    half = [(name, "2x", *counts) for name, at, *counts in DOOMED if at == "1x"]
    assert verdict(DOOMED + half, "recommended<=2x") is FAILED
    assert verdict(DOOMED + half, "recommended<=3x") is PASSED


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("no-oom@3x", PASSED),
        ("infra_error_rate<=2%@3x", PASSED),
        ("lift(3x)~0+-3pp", PASSED),
        ("recommended", PASSED),
        ("no-oom@1x", FAILED),
        ("infra_error_rate<=2%@1x", FAILED),
    ],
)
def test_with_trials_missing_nothing_passes(text, before):
    assert verdict(DOOMED, text) is before
    assert verdict(DOOMED, text, missing=1) is (OPEN if before is PASSED else FAILED)


@pytest.mark.parametrize("text", ["no-oom@3x", "no-kill@3x", "no-kill"])
def test_kills_that_were_not_counted_are_not_none(text):
    assert verdict(CALM, text, kills=False) is OPEN
    assert verdict(DOOMED, "no-oom@1x", kills=False) is FAILED


@pytest.mark.parametrize("text", ["lift(3x)~0+-3pp", "lift(3x)<=3pp", "recommended"])
def test_the_reference_solution_decides_nothing_about_scores(text):
    assert verdict(DOOMED, text, fit_only=True) is OPEN
    assert verdict(DOOMED, "no-oom@3x", fit_only=True) is PASSED


def test_an_engine_that_does_not_isolate_recommends_nothing():
    assert verdict(DOOMED, "recommended", engine_is_isolating=False) is OPEN
    assert verdict(DOOMED, "recommended", engine_is_isolating=False, accept_engine=True) is PASSED


def test_one_task_has_no_interval():
    one = [("a", name, 5, 0, 0, 0, 0) for name in ("1x", "3x")]
    assert verdict(one, "lift(3x)~0+-3pp") is OPEN
    assert verdict(one, "upper(lift(3x))<=3pp") is OPEN
    assert verdict(one, "lift(3x)<=3pp") is PASSED


def test_without_a_common_task_there_is_no_lift():
    rows = [("a", "1x", 5, 0, 0, 0, 0), ("b", "3x", 5, 0, 0, 0, 0)]
    assert verdict(rows, "lift(3x)<=3pp") is OPEN


def test_a_set_without_a_trial_is_open():
    table = study(CALM, kills=True)
    table.parameter_sets.append("5x")
    analysis = analyse(table)
    for text in ("no-oom@5x", "no-oom", "infra_error_rate<=2%@5x", "success_rate>=1%"):
        gate = parse_gate(text, where="--gate", sets=known_sets_of(analysis))
        assert judge(analysis, [gate])[0].verdict is OPEN


def test_nothing_ran():
    analysis = analyse(study([]))
    for text in ("no-oom", "recommended", "success_rate>=0", "lift(3x)<=3pp"):
        assert judge(analysis, [parse_gate(text, where="x")])[0].verdict is OPEN


def test_the_gate_says_what_the_summary_says():
    analysis = analyse(study(DOOMED, kills=True))
    assert analysis.recommendation.status is RecommendationStatus.RECOMMENDED
    gate = parse_gate("lift(3x)~0+-3pp", where="x")
    assert analysis.comparison("3x").success.equivalent
    assert "0.0 points at 3x (90% CI" in judge(analysis, [gate])[0].reason


cells = st.tuples(*[st.integers(0, 3)] * 5)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=6), st.integers(0, 100))
def test_a_rate_gate_and_its_opposite_never_agree(counts, limit):
    rows = [
        (f"t{number}", name, *own)
        for number, pair in enumerate(counts)
        for name, own in zip(("1x", "3x"), pair, strict=True)
    ]
    for rate in ("success_rate", "infra_error_rate", "agent_failure_rate"):
        analysis = analyse(study(rows, kills=True))
        most, more = (
            judge(analysis, [parse_gate(f"{rate}{sign}{limit}%@3x", where="x")])[0].verdict
            for sign in ("<=", ">")
        )
        assert (most, more) in {(PASSED, FAILED), (FAILED, PASSED), (OPEN, OPEN)}
