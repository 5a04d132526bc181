"""Several imports as one study: numbering, refusals, and nothing left half done."""

import errno
import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.study import imported_study
from pytest_infranoise.study.imported_runs import ImportedRun, ImportedTrial
from pytest_infranoise.study.imported_study import import_runs
from pytest_infranoise.study.store import load_study

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
AGENT = {"name": "terminus", "model": "m", "version": "1"}


def trial(task="t1", outcome=Outcome.PASSED, minute=0, content="c1"):
    start = START + timedelta(minutes=minute)
    return ImportedTrial(
        task=task,
        outcome=outcome,
        started_at=start,
        ended_at=start + timedelta(seconds=30),
        content=content,
    )


def made(name="job-1x", trials=None, **values):
    facts = {"kind": "harbor", "identity": f"id of {name}", "agent": AGENT, "concurrency": 4}
    own = [trial(), trial(minute=1), trial("t2", Outcome.FAILED)] if trials is None else trials
    return ImportedRun(name=name, trials=own, **{**facts, **values})


@pytest.fixture
def study(tmp_path):
    run = made(identity="id of job-1x\ntrial-1\ntrial-2")
    import_runs([run], tmp_path / "study", parameter_set="1x")
    return tmp_path / "study"


def numbers(study):
    return sorted((r.task, r.parameter_set, r.sample) for r in load_study(study).trial_records())


def test_samples_are_numbered_in_the_order_of_start(study):
    assert numbers(study) == [("t1", "1x", 1), ("t1", "1x", 2), ("t2", "1x", 1)]
    records = list(load_study(study).trial_records())
    assert records[0].started_at < records[1].started_at
    assert {r.wall_seconds for r in records} == {30.0}


def test_what_the_files_do_not_hold_is_unknown(study):
    for record in load_study(study).trial_records():
        assert record.oom_kills is record.memory_limit_bytes is record.memory_peak_bytes is None
        assert record.block is record.position is record.seed is record.worker is None
        assert record.cpu_limit_cores is record.admission_wait_seconds is None
    manifest = load_study(study).manifest
    assert manifest.data["order"] is manifest.data["backend"] is manifest.data["seed"] is None
    assert manifest.samples is None  # t1 has two, t2 one
    assert manifest.is_finished


def test_a_second_set_joins_the_study(study):
    import_runs([made("job-3x")], study, parameter_set="3x", into=True)
    manifest = load_study(study).manifest
    assert manifest.parameter_sets == ("1x", "3x")
    assert manifest.baseline == "1x"
    assert manifest.data["planned_trials"] == 6
    assert manifest.data["workers"] == 4
    assert manifest.data["started_at"] == START.isoformat()
    assert [run["parameter_set"] for run in manifest.data["source"]["runs"]] == ["1x", "3x"]
    assert {record.study for record in load_study(study).trial_records()} == {manifest.study}


def test_more_of_the_same_set_counts_on(study):
    import_runs([made("again")], study, parameter_set="1x", into=True)
    assert [key for key in numbers(study) if key[0] == "t1"] == [
        ("t1", "1x", number) for number in (1, 2, 3, 4)
    ]


def test_several_runs_at_once_are_the_same_as_one_after_another(study, tmp_path):
    import_runs([made(), made("again")], tmp_path / "both", parameter_set="1x")
    import_runs([made("again")], study, parameter_set="1x", into=True)
    assert numbers(tmp_path / "both") == numbers(study)


def test_equal_samples_everywhere_are_the_study_s_samples(tmp_path):
    runs = [made(trials=[trial("t1"), trial("t2")])]
    import_runs(runs, tmp_path / "study", parameter_set="1x")
    assert load_study(tmp_path / "study").manifest.samples == 1
    import_runs([made("b", [trial("t1")])], tmp_path / "study", parameter_set="3x", into=True)
    assert load_study(tmp_path / "study").manifest.samples is None


def test_the_baseline_can_be_chosen_later(study):
    import_runs([made("b")], study, parameter_set="3x", into=True, baseline="3x")
    assert load_study(study).manifest.baseline == "3x"
    import_runs([made("c")], study, parameter_set="5x", into=True)
    assert load_study(study).manifest.baseline == "3x"


@pytest.mark.parametrize(
    ("run", "options", "named"),
    [
        (
            made(identity="id of job-1x\ntrial-1\ntrial-2"),
            {},
            "job-1x: the study has it already, as job-1x",
        ),
        (
            made("renamed", identity="id of job-1x\ntrial-1\ntrial-2"),
            {},
            "renamed: the study has it already",
        ),
        (
            made("b", identity="more\ntrial-1\ntrial-2\ntrial-3"),
            {},
            "b: 2 of its 3 trials are in the study already, as job-1x, which has gone on since",
        ),
        (made("b", agent={**AGENT, "name": "x"}), {}, "ran x with m, but the study's agent is"),
        (made("b", agent={**AGENT, "model": None}), {}, "ran terminus, but the study's agent"),
        (
            made("b"),
            {"baseline": "9x"},
            "--baseline: '9x' is not a parameter set of this study: 1x",
        ),
        (made("b", kind="swebench"), {}, "was imported from Harbor; use -o with a new folder"),
    ],
)
def test_what_does_not_belong_together_is_refused(run, options, named, study):
    before = {file.name: file.read_bytes() for file in study.iterdir()}
    with pytest.raises(UsageError) as error:
        import_runs([run], study, parameter_set="1x", into=True, **options)
    assert named in str(error.value)
    assert {file.name: file.read_bytes() for file in study.iterdir()} == before


def test_a_study_that_pytest_ran_takes_no_import(study):
    file = study / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "source": None}))
    with pytest.raises(UsageError, match="was run by pytest"):
        import_runs([made("b")], study, parameter_set="3x", into=True)


def test_versions_that_differ_are_unknown(study):
    import_runs([made("b", agent={**AGENT, "version": "2"})], study, parameter_set="3x", into=True)
    data = load_study(study).manifest.data
    assert data["agent"] == {**AGENT, "version": None}
    assert [run["agent_version"] for run in data["source"]["runs"]] == ["1", "2"]


def test_a_task_that_changed_between_imports_is_named(study):
    trials = [trial(content="other"), trial("t2")]
    import_runs([made("b", trials)], study, parameter_set="3x", into=True)
    data = load_study(study).manifest.data
    assert data["changed_tasks"] == ["t1"]
    assert {item["name"]: item["digest"] for item in data["tasks"]} == {"t1": None, "t2": "c1"}
    import_runs([made("c", [trial(content="other")])], study, parameter_set="5x", into=True)
    assert load_study(study).manifest.data["changed_tasks"] == ["t1"]


def test_a_manifest_that_cannot_be_written_takes_the_records_along(study, monkeypatch):
    before = (study / "trials.jsonl").read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(imported_study, "write_json", full)
    with pytest.raises(InfranoiseError, match="No space left"):
        import_runs([made("b")], study, parameter_set="3x", into=True)
    assert (study / "trials.jsonl").read_bytes() == before
    monkeypatch.undo()
    import_runs([made("b")], study, parameter_set="3x", into=True)
    assert Counter(key[1] for key in numbers(study)) == {"1x": 3, "3x": 3}
