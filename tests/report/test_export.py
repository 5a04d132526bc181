"""Trials as a table for other programs."""

import csv
import json
from pathlib import Path

import pytest

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.model.trial import TrialRecord
from pytest_infranoise.report.export import COLUMNS, export
from pytest_infranoise.study.store import load_study

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def a_record(task="spike", **values):
    record = TrialRecord(
        study="s", task=task, parameter_set="3x", sample=1, attempt=1, block=0, position=0, seed=1,
        outcome="oom", cause=None, detail=None, started_at=None, worker="gw0", notes=("a", "b"),
    )  # fmt: skip
    made = {**{field: getattr(record, field) for field in record.__slots__}, **values}
    phases = [
        {"phase": "agent", "wall_seconds": 1.5},
        {"phase": "agent", "wall_seconds": 2.0},
        {"phase": "verify", "wall_seconds": None},
    ]
    return {**made, "phases": phases, "notes": ["a", "b"], "requested": {}, "effective": {}}


@pytest.fixture
def study(tmp_path):
    def make(*records):
        folder = tmp_path / "study"
        folder.mkdir()
        manifest = {
            "schema_version": 1,
            "study": "s",
            "parameter_sets": [{"id": "3x", "memory_multiplier": 3.0, "cpu_multiplier": None}],
            "tasks": [],
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "trials.jsonl").write_text(lines)
        return load_study(folder)

    return make


def read(file):
    with file.open(encoding="utf-8", newline="") as source:
        return list(csv.DictReader(source))


def test_one_row_per_attempt(study, tmp_path):
    given = study(a_record(), a_record(attempt=2, outcome="passed"))
    assert export(given, tmp_path / "trials.csv") == 2
    first, second = read(tmp_path / "trials.csv")
    assert list(first) == list(COLUMNS)
    assert (first["outcome"], second["outcome"], second["attempt"]) == ("oom", "passed", "2")
    assert (first["memory_multiplier"], first["cpu_multiplier"]) == ("3.0", "")
    assert (first["agent_seconds"], first["verify_seconds"]) == ("3.5", "")
    assert first["notes"] == "a; b"
    assert first["oom_kills"] == ""


def test_json_holds_the_same_with_types(study, tmp_path):
    given = study(a_record(oom_kills=3), a_record("\u2028=x\n\ud83d\ude00"))
    assert export(given, tmp_path / "trials.json") == 2
    rows = json.loads((tmp_path / "trials.json").read_text())
    assert [set(row) for row in rows] == [set(COLUMNS)] * 2
    assert rows[0]["oom_kills"] == 3
    assert rows[0]["memory_peak_bytes"] is None
    assert rows[1]["task"].startswith("\u2028=x\n")


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx", '=cmd|"/c"!A1'])
def test_a_name_starts_no_formula(study, tmp_path, name):
    export(study(a_record(name)), tmp_path / "trials.csv")
    assert read(tmp_path / "trials.csv")[0]["task"] == f"'{name}"


@pytest.mark.parametrize("name", ['a,"b"', "a\nb", "a\rb", "tâche", "a;b", "<script>", "\x1b[1m"])
def test_other_names_stay_as_they_are(study, tmp_path, name):
    export(study(a_record(name)), tmp_path / "trials.csv")
    assert read(tmp_path / "trials.csv")[0]["task"] == name


def test_a_lone_surrogate_is_no_crash(study, tmp_path):
    export(study(a_record("a\ud800b")), tmp_path / "trials.csv")
    assert read(tmp_path / "trials.csv")[0]["task"] == "a?b"


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_an_empty_study_is_an_empty_table(study, tmp_path, kind):
    file = tmp_path / f"trials.{kind}"
    assert export(study(), file) == 0
    assert (read(file) if kind == "csv" else json.loads(file.read_text())) == []


def test_another_kind_of_file_is_refused(study, tmp_path):
    with pytest.raises(UsageError, match=r"neither \.csv nor \.json"):
        export(study(), tmp_path / "trials.xlsx")


def test_a_failure_leaves_nothing_behind(study, tmp_path):
    given = study(a_record())
    with pytest.raises(InfranoiseError, match="cannot be written"):
        export(given, tmp_path / "missing" / "trials.csv")
    given.journal.write_text("not json\n")
    with pytest.raises(UsageError):
        export(given, tmp_path / "trials.csv")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["study"]


def test_every_column_is_documented():
    page = PAGE.read_text()
    for name, meaning in COLUMNS.items():
        assert f"| `{name}` | {meaning} |" in page
