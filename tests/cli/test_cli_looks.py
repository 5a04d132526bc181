"""Looks at a study: the control, planned looks, and looks at one that still grows."""

import json
import shutil

import pytest

from pytest_infranoise.statistics.sequential import planned_looks
from pytest_infranoise.study.looks import LOOKS_NAME, count_looks

NATIVE = {"source": None, "agent": {"name": "cat"}, "order": "interleaved"}
NO, YES = (0, 3, 0, 0, 0), (3, 0, 0, 0, 0)
# Twelve tasks: every sample fails at 1x and passes at 3x; the control passes once.
ROWS = [
    row
    for number in range(12)
    for row in (
        (f"t{number}", "1x", *NO),
        (f"t{number}", "1x-aa", *((1, 2, 0, 0, 0) if number == 0 else NO)),
        (f"t{number}", "3x", *YES),
    )
]
PLAIN = [row for row in ROWS if row[1] != "1x-aa"]


def looks(most: int) -> list[dict[str, object]]:
    return [{name: getattr(look, name) for name in look.__slots__} for look in planned_looks(most)]


def test_the_control_is_first_and_compared_with_nothing_else(make_study, command):
    study = make_study(ROWS, control="1x-aa", **NATIVE)
    _, out, _ = command("report", study)
    lines = out.splitlines()
    verdict = next(index for index, line in enumerate(lines) if line.startswith("kills"))
    assert lines[verdict + 1].startswith("A/A control: 1x-aa minus 1x, nothing changed: success +")
    table = [line.split()[0] for line in lines[:verdict]]
    assert (table.count("1x-aa"), table.count("3x")) == (1, 2)


def test_the_control_says_nothing_about_another_baseline(make_study, command):
    study = make_study(ROWS, control="1x-aa", **NATIVE)
    _, out, _ = command("report", study, "--baseline=3x")
    assert "A/A control 1x-aa left out: it repeats 1x, not 3x" in out
    shutil.rmtree(study)
    _, plain, _ = command("report", make_study(PLAIN, **NATIVE), "--baseline=3x")
    lines = out.replace("72 of 108 trials", "72 of 72 trials").splitlines()
    assert [line for line in lines if "1x-aa" not in line] == plain.splitlines()


@pytest.mark.parametrize("control", ["9x", 5, ["1x"]])
def test_a_control_that_is_none_is_one_line(control, make_study, command):
    code, out, err = command("report", make_study(ROWS, control=control, **NATIVE))
    assert (code, out, err.count("\n")) == (4, "", 1)


def test_a_decided_study_shows_its_look_alone(make_study, command):
    study = make_study(PLAIN, planned_looks=looks(3), decided_at_look=2, **NATIVE)
    _, out, _ = command("report", study)
    assert "decided after 2 of 3 samples: later ones are not needed (24 of their trials" in out
    assert "48 of 72 trials" in out
    level = looks(3)[1]["level_difference"]
    assert f"planned look 2 of 3 at 2 of 3 samples: different at p < {level:.2g}" in out
    _, text, _ = command("report", study, "--format=json")
    assert {item["n_trials"] for item in json.loads(text)["parameter_sets"]} == {24}


def test_an_undecided_study_ends_with_its_last_look(make_study, command):
    study = make_study(PLAIN, planned_looks=looks(3), decided_at_look=None, **NATIVE)
    _, out, _ = command("report", study)
    assert "72 of 72 trials" in out
    assert "planned look 3 of 3 at 3 of 3 samples" in out


def test_a_study_stopped_before_its_last_look_says_how_far_it_came(make_study, command):
    study = make_study(PLAIN, planned_looks=looks(9), decided_at_look=None, **NATIVE)
    _, out, _ = command("report", study)
    assert "planned look 3 of 3 at 3 of 9 samples" in out


@pytest.mark.parametrize(
    "planned", [5, "x", [1], [{}], [{"number": 1}], [dict.fromkeys(looks(3)[0], "1")]], ids=str
)
def test_looks_that_cannot_be_used_are_one_line(planned, make_study, command):
    study = make_study(PLAIN, planned_looks=planned, decided_at_look=1, **NATIVE)
    code, out, err = command("report", study)
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "planned_looks" in err


def test_every_look_at_a_growing_study_is_counted(make_study, command):
    study = make_study(PLAIN, ended_at=None, planned_looks=looks(3), **NATIVE)
    for often in ("once", "2 times", "3 times"):
        _, out, _ = command("report", study)
        assert f"analysed {often} while growing; p-values are nominal" in out
        assert "planned look" not in out
    lines = [json.loads(line) for line in (study / LOOKS_NAME).read_text().splitlines()]
    assert {line["journal_bytes"] for line in lines} == {(study / "trials.jsonl").stat().st_size}
    manifest = json.loads((study / "manifest.json").read_text())
    (study / "manifest.json").write_text(json.dumps({**manifest, "ended_at": "2026-01-01"}))
    for _ in range(2):
        _, out, _ = command("report", study)
        assert "analysed 3 times while growing" in out
        assert "planned look 3 of 3" in out


def test_a_finished_study_is_not_marked(make_study, command):
    study = make_study(PLAIN, **NATIVE)
    _, out, _ = command("report", study)
    assert "while growing" not in out
    assert not (study / LOOKS_NAME).exists()


def test_a_study_without_any_record_shows_nothing_and_is_not_marked(make_study, command):
    study = make_study(PLAIN, ended_at=None, **NATIVE)
    (study / "trials.jsonl").write_bytes(b"")
    assert command("report", study)[0] == 0
    assert not (study / LOOKS_NAME).exists()


def test_a_look_that_cannot_be_noted_costs_no_report(make_study, command):
    study = make_study(PLAIN, ended_at=None, **NATIVE)
    (study / LOOKS_NAME).mkdir()
    code, out, err = command("report", study)
    assert (code, err) == (0, "")
    assert "has not ended" in out
    assert count_looks(study) == 0
