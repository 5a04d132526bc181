"""CI's check of the main job notices every way in which outcomes can differ from the table."""

import json
from pathlib import Path

import pytest
from check_main_job import TABLE, differences, expected_outcomes, main, recorded_outcomes

MARKDOWN = """
| task | shows | 1x | 3x | uncapped |
|---|---|---|---|---|
| `spike` | a spike | oom | passed | passed |
| `suite.py::test_a` | a test | passed | passed | passed |
"""


def journal(**changes: str | None) -> str:
    """The example tasks' own table as a journal; `task__set="failed"` changes, None leaves out."""
    lines = []
    for (task, parameter_set), outcome in expected_outcomes(TABLE.read_text()).items():
        prefix = "example_tasks/" if "::" in task else ""
        outcome = changes.get(f"{task.replace('-', '_')}__{parameter_set}", outcome)
        if outcome is not None:
            record = {"task": prefix + task, "parameter_set": parameter_set, "outcome": outcome}
            lines.append(json.dumps(record))
    return "\n".join(lines) + "\n"


def test_the_table_is_read_by_task_and_set() -> None:
    assert expected_outcomes(MARKDOWN) == {
        ("spike", "1x"): "oom",
        ("spike", "3x"): "passed",
        ("spike", "uncapped"): "passed",
        ("suite.py::test_a", "1x"): "passed",
        ("suite.py::test_a", "3x"): "passed",
        ("suite.py::test_a", "uncapped"): "passed",
    }


def test_the_real_table_holds_every_kind_of_outcome() -> None:
    expected = expected_outcomes(TABLE.read_text())
    assert len(expected) == 3 * 11
    assert set(expected.values()) == {"passed", "failed", "oom", "timeout"}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"spike__1x": "passed"}, "spike 1x: expected oom, recorded passed"),
        ({"plain_pass__3x": None}, "plain-pass 3x: expected passed, recorded None"),
    ],
)
def test_a_difference_is_named(
    changes: dict[str, str | None],
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "trials.jsonl").write_text(journal(**changes))
    assert main(tmp_path) == 1
    assert capsys.readouterr().out == line + "\n"


def test_a_trial_that_the_table_does_not_know_is_a_difference() -> None:
    recorded = recorded_outcomes(journal()) | {("new", "1x"): "passed"}
    found = differences(expected_outcomes(TABLE.read_text()), recorded)
    assert found == ["new 1x: expected None, recorded passed"]


def test_equal_outcomes_are_no_difference(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").write_text(journal())
    assert main(tmp_path) == 0
