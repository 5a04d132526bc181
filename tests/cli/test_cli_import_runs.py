"""`infranoise import harbor|swebench|terminal-bench`, and what the report makes of it."""

import json
import re
from pathlib import Path

import pytest

from pytest_infranoise.study.store import load_study

JOBS = Path(__file__).parents[1] / "reference" / "harbor"
REPORT = {"resolved_ids": ["a-1", "a-2"], "unresolved_ids": ["a-3"], "schema_version": 2}
HARBOR = ("import", "harbor")


@pytest.fixture
def harbor_study(command, tmp_path):
    """The two real jobs as a study of two sets."""
    study = tmp_path / "study"
    first = command(*HARBOR, JOBS / "made-elsewhere-1x", "--set", "1x", "-o", study)
    second = command(*HARBOR, JOBS / "made-elsewhere-8x", "--set", "8x", "--into", study)
    assert first[::2] == second[::2] == (0, "")
    return study


@pytest.fixture
def write_report(tmp_path):
    def write(name="me.1x.json", **values):
        (tmp_path / name).write_text(json.dumps({**REPORT, **values}))
        return tmp_path / name

    return write


def test_what_an_import_says(command, tmp_path):
    code, out, err = command(
        *HARBOR, JOBS / "made-elsewhere-1x", "--set", "1x", "-o", tmp_path / "s"
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "made-elsewhere-1x at 1x: 24 trials of 12 tasks: 4 passed, 8 failed, 2 timeout, 8 infra",
        "refused by the model's provider, in no rate: 2 trials",
        "note: 2 trial(s) ended with exit code 137, which does not prove a memory kill",
    ]
    assert "12 tasks x 1 parameter set (1x), 24 trials, against 1x" in out


def test_the_report_says_which_conclusions_fall_away(harbor_study, command):
    code, out, _ = command("report", harbor_study)
    assert code == 0
    assert "imported from Harbor (made-elsewhere-1x, made-elsewhere-8x), 44 of 48 trials" in out
    assert "hold no kills, limits, peaks or order" in out
    assert "infra errors are a lower bound" in out
    assert "what cannot be concluded: what to set as guarantee or kill threshold" in out
    assert "refused by the model's provider: 4 attempts of 4 trials, in no rate" in out
    assert "--infra-resume" not in out
    assert "kills: not counted in any set" in out
    assert "threshold: none named: memory kills are not recorded" in out
    assert "order unknown" in out
    assert "named where beyond chance; kills are unknown): 8x: 1 eased" in out
    _, names, _ = command("report", harbor_study, "-v")
    assert "1 task passing more often at 8x (kills are unknown): bench/hungry" in names
    assert "without fewer kills" not in out


def test_an_oom_that_nobody_recorded_is_no_zero(harbor_study, command):
    _, out, _ = command("report", harbor_study)
    rows = {line.split()[0]: line.split() for line in out.splitlines() if " - " in line}
    assert rows["1x"][:6] == ["1x", "4", "8", "2", "-", "8"]
    assert rows["8x"][:6] == ["8x", "6", "6", "2", "-", "8"]


def test_no_word_about_repaired_crashes_however_clear_the_data(command, write_report, tmp_path):
    names = [f"t-{number}" for number in range(40)]
    low = write_report(resolved_ids=[], unresolved_ids=names)
    high = write_report("me.3x.json", resolved_ids=names, unresolved_ids=[])
    study = tmp_path / "study"
    assert command("import", "swebench", low, "--set", "1x", "-o", study)[0] == 0
    assert command("import", "swebench", high, "--set", "3x", "--into", study)[0] == 0
    _, out, _ = command("report", study)
    assert "100.0% at 3x: +100.0 points" in out
    _, all_of_it, _ = command("report", study, "-v")
    assert "beyond the repair of crashes, agent failures moved" not in out + all_of_it
    _, out, _ = command("report", study, "--format", "json")
    assert json.loads(out)["recommendation"]["status"] == "not_applicable"


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ("infra_error_rate<=0.5@1x", "not decidable: infra_error_rate<=0.5@1x: 0.0% at 1x"),
        ("infra_error_rate>=0.5@1x", "failed: infra_error_rate>=0.5@1x"),
        ("no-oom@1x", "not decidable: no-oom@1x"),
        ("success_rate>=0.5@1x", "passed: success_rate>=0.5@1x"),
    ],
)
def test_no_gate_passes_on_kills_that_nobody_recorded(gate, words, command, write_report, tmp_path):
    study = tmp_path / "study"
    command("import", "swebench", write_report(), "--set", "1x", "-o", study)
    code, out, _ = command("report", study, "-q", "--gate", gate)
    assert f"gate {words}" in out
    assert (code == 0) is words.startswith("passed")


def test_counts_are_still_taken_at_their_word(make_study, command):
    rows = [("t1", "1x", 1, 2, 0, 0, 0), ("t1", "3x", 3, 0, 0, 0, 0)]
    _, out, _ = command("report", make_study(rows))
    assert "cannot be concluded" not in out
    assert re.search(r"^1x +1 +2 +0 +0 +0 ", out, re.MULTILINE)


def test_every_reader_of_studies_reads_an_import(harbor_study, command, tmp_path):
    for arguments in (
        ("report", harbor_study, "-vv"),
        ("export", harbor_study, "-o", tmp_path / "rows.csv"),
        ("export", harbor_study, "--card", tmp_path / "card.json"),
        ("plan", "--from", harbor_study, "--detect", "5pp"),
        ("compare", harbor_study, harbor_study, "--pair", "1x:8x"),
    ):
        code, _, err = command(*arguments)
        assert (code, err) == (0, ""), arguments
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 49


def test_reports_are_samples(command, write_report, tmp_path):
    files = [write_report(f"run-{n}.json", note=n) for n in (1, 2, 3)]
    study = tmp_path / "study"
    code, out, _ = command(
        "import", "swebench", *files, "--set", "1x", "-o", study, "--agent", "me"
    )
    assert code == 0
    assert "3 tasks x 1 parameter set (1x), 9 trials" in out
    assert load_study(study).manifest.samples == 3
    assert load_study(study).manifest.agent["name"] == "me"


def test_a_terminal_bench_run(command, tmp_path):
    entry = {"task_id": "t", "is_resolved": True, "failure_mode": "none", "trial_name": "t.1"}
    (tmp_path / "results.json").write_text(json.dumps({"results": [entry]}))
    study = tmp_path / "study"
    code, _, err = command("import", "terminal-bench", tmp_path, "--set", "1x", "-o", study)
    assert (code, err) == (0, "")
    assert "imported from Terminal-Bench" in command("report", study)[1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["harbor", "JOB", "-o", "s"], "--set"),
        (["harbor", "JOB", "--set", "1x"], "-o/--output --into"),
        (["harbor", "JOB", "--set", "1x", "-o", "s", "--into", "s"], "not allowed with"),
        (["harbor", "JOB", "--set", " ", "-o", "s"], "--set: ' ' names no parameter set"),
        (["harbor", "JOB", "--set", "1x", "--into", "s"], "s: no study here"),
        (["harbor", "JOB", "--set", "1x", "-o", "s", "--pass-threshold", "0"], "--pass-threshold"),
        (["harbor", "JOB", "--set", "1x", "-o", "s", "--agent", "x"], "--agent"),
        (["harbor", "JOB", "JOB", "--set", "1x", "-o", "s"], "has it already"),
        (["harbor", "nowhere", "--set", "1x", "-o", "s"], "nowhere: not a folder"),
        (["swebench", "nowhere", "--set", "1x", "-o", "s"], "nowhere: cannot be read"),
        (["counts", "x.csv", "-o", "s", "--set", "1x"], "--set"),
        (["something", "x"], "something"),
        ([], "WHAT"),
    ],
)
def test_what_cannot_be_used_is_one_line(arguments, named, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [str(JOBS / "made-elsewhere-1x") if word == "JOB" else word for word in arguments]
    code, out, err = command("import", *words)
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert named in err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_a_study_needs_into(harbor_study, command):
    code, _, err = command(*HARBOR, JOBS / "made-elsewhere-8x", "--set", "8x", "-o", harbor_study)
    assert code == 4
    assert "already holds a study" in err


@pytest.mark.parametrize("kind", ["counts", "harbor", "swebench", "terminal-bench"])
def test_help_of_every_kind_has_an_example(kind, command):
    code, out, _ = command("import", kind, "--help")
    assert code == 0
    assert f"infranoise import {kind} " in out.partition("example:")[2]
