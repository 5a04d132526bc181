"""The suite's own judgement: it must see a wrong record, and say what was not played."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from catalogue import BY_NAME, SCENARIOS
from kill_signs import kills_table, mistakes_table, observe, true_kills
from make_table import load, page, summary
from scenario import ENGINES, Right, Scenario

from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.trial import PhaseRecord, TrialRecord


def phase(name: str, **values: Any) -> PhaseRecord:
    given = {"phase": name, "ending": "exit", "started_at": "", "wall_seconds": 1.0, "oom_kills": 0}
    return PhaseRecord(**{**given, **values})


def record(*phases: PhaseRecord, **values: Any) -> TrialRecord:
    given: dict[str, Any] = {
        "study": "s",
        "task": "t",
        "parameter_set": "1x",
        "sample": 1,
        "attempt": 1,
        "block": 0,
        "position": 0,
        "seed": 1,
        "outcome": Outcome.OOM,
        "cause": Cause.ENDED_PHASE,
        "detail": None,
        "started_at": None,
        "worker": None,
        "oom_kills": 1,
        "phases": phases,
    }
    return TrialRecord(**{**given, **values})


AGENT = phase("agent", exit_code=137, oom_kills=1, limit_reached=True, victim="step")
GOOD = record(phase("setup"), AGENT, phase("verify"))
RIGHT = Right(
    outcome="oom",
    cause="ended_phase",
    kills={"agent": 1},
    exit_code=137,
    limit_reached=True,
    victim="step",
)


def test_a_right_record_has_no_differences() -> None:
    assert RIGHT.differences(GOOD) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (replace(GOOD, outcome=Outcome.FAILED), "outcome"),
        (replace(GOOD, cause=Cause.VERIFIER), "cause"),
        (replace(GOOD, cause=None), "cause"),
        (replace(GOOD, oom_kills=2), "kills of the trial"),
        (replace(GOOD, oom_kills=None), "kills of the trial"),
        (replace(GOOD, phases=(phase("setup", oom_kills=1), AGENT)), "kills in setup"),
        (replace(GOOD, phases=(phase("setup"),)), "no agent phase"),
        *(
            (replace(GOOD, phases=(replace(AGENT, **{field: value}),)), words)
            for field, value, words in (
                ("oom_kills", 0, "kills in agent"),
                ("oom_kills", None, "kills in agent"),
                ("exit_code", 1, "exit code"),
                ("ending", "deadline", "ending"),
                ("limit_reached", None, "limit_reached"),
                ("victim", "child", "victim"),
            )
        ),
    ],
)
def test_each_difference_is_seen(wrong: TrialRecord, words: str) -> None:
    assert any(words in line for line in RIGHT.differences(wrong))


def test_unknown_is_not_zero_and_a_range_has_bounds() -> None:
    unknown = replace(GOOD, phases=(replace(AGENT, oom_kills=None),), oom_kills=None)
    assert replace(RIGHT, kills={"agent": None}).differences(unknown) == []
    assert replace(RIGHT, kills={"agent": None}).differences(GOOD)
    assert replace(RIGHT, kills={"agent": (1, 3)}).differences(GOOD) == []
    assert replace(RIGHT, kills={"agent": (2, 3)}).differences(GOOD)
    assert replace(RIGHT, kills={"agent": (0, 3)}).differences(unknown)


def test_of_several_right_records_one_is_enough() -> None:
    other = Right(outcome="passed")
    scenario = Scenario(name="x", agent="", right=(other, RIGHT), instead={"docker*": other})
    assert scenario.differences(GOOD, "local-v1") == []
    assert scenario.differences(GOOD, "docker-v2")


def test_every_pattern_names_an_engine() -> None:
    from fnmatch import fnmatch

    for scenario in SCENARIOS:
        for pattern in (*scenario.instead, *scenario.not_for):
            assert any(fnmatch(key, pattern) for key in ENGINES), (scenario.name, pattern)


def test_there_are_enough_and_each_engine_plays_most() -> None:
    assert len(SCENARIOS) >= 40
    for key in ENGINES:
        played = [scenario for scenario in SCENARIOS if scenario.reason_against(key) is None]
        assert len(played) >= 40, key


def results(**by_scenario: dict[str, Any]) -> dict[str, Any]:
    facts = {"engine": "docker 1", "kernel": "6.1", "enforcement": "hard limit", "as": "root"}
    return {"engine": "docker-v2", "facts": facts, "results": by_scenario}


def test_the_table_says_what_was_right_wrong_and_not_played(tmp_path: Path) -> None:
    names = [scenario.name for scenario in SCENARIOS[:3]]
    content = results(
        **{
            names[0]: {"status": "right", "runs": 20, "wrong": []},
            names[1]: {"status": "wrong", "runs": 1, "wrong": ["outcome"]},
            names[2]: {"status": "n/a", "reason": "because"},
        }
    )
    (tmp_path / "docker-v2.json").write_text(json.dumps(content), encoding="utf-8")
    engines = load([tmp_path])
    text = page(engines, [])
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if "|" in line}
    assert rows[names[0]].endswith("| right (20) |")
    assert rows[names[1]].endswith("| wrong: outcome |")
    assert rows[names[2]].endswith("| n/a 1 |")
    assert "1. because" in text
    assert summary(engines)[-1].endswith("| 1 | 1 | 1 | 21 |")


def test_what_a_scenario_says_of_its_kills() -> None:
    assert true_kills(BY_NAME["three kills"], "docker-v1") == (3, 3)
    assert true_kills(BY_NAME["exit 137 by itself"], "docker-v1") == (0, 0)
    assert true_kills(BY_NAME["holder killed from outside"], "docker-v1") == (0, 0)
    assert true_kills(BY_NAME["spike of ten milliseconds"], "watchdog") is None


def test_signs_are_counted_and_mistakes_listed() -> None:
    seen = observe(GOOD, False, True)
    assert seen == {"flag": 0, "flag_stopped": 1, "exit_137": 1, "record": 1}
    content = {"engine": "docker-v1", "trials": [{"scenario": "x", "true": (1, 1), **seen}]}
    assert "| 0 of 1 | 0 of 0 | 0 of 1 |" in kills_table([content])[2]
    assert "| 1 of 1 | 0 of 0 | 1 of 1 |" in kills_table([content])[-1]
    assert mistakes_table([content])[-1].split(" | ")[1:] == ["x", "1", "no", "yes", "yes", "1 |"]
