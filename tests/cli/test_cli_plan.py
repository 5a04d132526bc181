"""Plans: the figures of analysis/planning, from options and from a study."""

import json

import pytest
from cli_tables import CASES

from pytest_infranoise.analysis.planning import Design, plan, variance_of
from pytest_infranoise.report.view import view_study
from pytest_infranoise.study.store import load_study

S11 = CASES["S11"]["input"]["rows"]


def planned(command, *options):
    code, out, err = command("plan", "--format", "json", *options)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_options_make_the_design(command):
    made = planned(
        command, "--tasks", 89, "--sets", 6, "--detect", "4pp", "--margin", "2%",
        "--samples", "2,7", "--cost-per-trial", "0.40", "--seconds-per-trial", 90, "--parallel", 8,
    )  # fmt: skip
    design = Design(n_tasks=89, n_sets=6, effect=0.04, margin=0.02, cost_per_trial=0.4,
                    seconds_per_trial=90.0, parallel=8)  # fmt: skip
    assert made == json.loads(json.dumps(plan(design, (2, 7)).to_json()))
    row = made["rows"][1]
    assert row["trials"] == 89 * 6 * 7
    assert row["cost"] == pytest.approx(89 * 6 * 7 * 0.4)
    assert row["hours"] == pytest.approx(89 * 6 * 7 * 90 / 8 / 3600)


def test_the_usual_samples_and_what_is_unknown(command):
    made = planned(command, "--tasks", 89)
    assert [row["samples"] for row in made["rows"]] == [1, 3, 5, 10, 20]
    assert all(row["hours"] is row["cost"] is None for row in made["rows"])
    assert made["variance_assumed"] is True
    _, out, _ = command("plan", "--tasks", 89)
    assert "assumed, since no study was given" in out
    assert "cost" not in out
    assert "hours" not in out


def test_a_study_gives_tasks_sets_and_variances(make_study, command):
    study = make_study(S11)
    made = planned(command, "--from", study)
    expected = variance_of(view_study(load_study(study)).analysis)
    assert (made["n_tasks"], made["n_sets"]) == (200, 4)
    assert made["trial_variance"] == expected.value != Design(n_tasks=2, n_sets=2).variance.value
    assert made["variance_assumed"] is False
    assert all(row["hours"] is None for row in made["rows"])  # counts know no times
    again = planned(command, "--from", study, "--tasks", 89, "--sets", 2)
    assert (again["n_tasks"], again["n_sets"]) == (89, 2)


def test_a_study_gives_seconds_and_workers(make_study, command):
    study = make_study(S11, workers=4)
    lines = (study / "trials.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for number, record in enumerate(records):
        record["wall_seconds"] = [30.0, 90.0, None, None][number % 4]
    (study / "trials.jsonl").write_text("".join(json.dumps(item) + "\n" for item in records))
    row = planned(command, "--from", study)["rows"][0]
    assert row["hours"] == pytest.approx(800 * 60 / 4 / 3600)
    _, out, _ = command("plan", "--from", study)
    assert "60 seconds per trial, 4 at once" in out


def test_the_reference_agent_says_nothing_of_a_model(make_study, command):
    study = make_study(S11, agent={"name": "oracle"})
    assert planned(command, "--from", study)["variance_assumed"] is True
    _, out, _ = command("plan", "--from", study)
    assert "says nothing of others" in out


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(task, "1x", 1, 1, 0, 0, 0) for task in "abc"], "compares no two sets"),
        (
            [(task, name, 1, 0, 0, 0, 0) for task in "abc" for name in ("1x", "3x")],
            "assumed in part",
        ),
    ],
)
def test_what_a_study_cannot_tell_is_said(rows, words, make_study, command):
    code, out, _ = command("plan", "--from", make_study(rows))
    assert code == 0
    assert words in out
