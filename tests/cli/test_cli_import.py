"""Counts from CSV, as a study."""

import csv
import errno
import json
import os
from collections import Counter

import pytest
from cli_tables import CASES, HEADER, table
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_infranoise.errors import UsageError
from pytest_infranoise.study.counts import COUNTED, CountRow, CountTable
from pytest_infranoise.study.imported import import_counts
from pytest_infranoise.study.store import load_study

ROWS = [("t1", "1x", 1, 2, 3, 4, 5), ("t1", "3x", 15, 0, 0, 0, 0), ("t2", "1x", 0, 1, 0, 0, 0)]


def near(expected):
    return pytest.approx(expected, abs=1e-6, rel=0)


@pytest.fixture
def report(make_study, command):
    def run(rows, *options, **facts):
        code, out, err = command("report", make_study(rows, **facts), "--format", "json", *options)
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


def test_the_whole_decision_on_the_reference_data(report):
    expected = CASES["S11"]["expected"]
    table = report(CASES["S11"]["input"]["rows"])
    sets = {item["id"]: item for item in table["parameter_sets"]}
    for item in expected["configs"]:
        assert sets[item["config"]]["success"]["value"] == near(item["success_macro"])
        assert sets[item["config"]]["infra_error"]["value"] == near(item["infra_macro"])
        assert sets[item["config"]]["n_trials"] == item["n_trials"]
    found = {item["parameter_set"]: item["measures"] for item in table["comparisons"]}
    assert set(found) == set(expected["comparisons"])
    for name, item in expected["comparisons"].items():
        success, infra = found[name]["success"], found[name]["infra_error"]
        assert success["difference"] == near(item["score_diff"])
        like = success["tasks_like_these"]
        assert like["se"] == near(item["score_se"])
        assert like["p_value"] == near(item["score_p"])
        assert infra["difference"] == near(item["infra_diff"])
        assert infra["tasks_like_these"]["p_value"] == near(item["infra_p"])
        agent = found[name]["agent_failure"]["tasks_like_these"]
        assert agent["p_value"] == near(item["agentfail_p"])
    found = table["recommendation"]
    assert (found["status"], found["parameter_set"]) == ("repairs", "3x")
    assert table["fit_only"] is False


def test_a_small_case(report):
    expected = CASES["S05"]["expected"]
    success = report(CASES["S05"]["input"]["rows"])["comparisons"][0]["measures"]["success"]
    assert success["difference"] == near(expected["diff"])
    assert success["n_tasks"] == 8


def test_every_record_can_be_read_and_validated(make_study):
    study = load_study(make_study(ROWS))
    records = list(study.trial_records())
    assert Counter((r.task, r.parameter_set, r.outcome) for r in records) == {
        (task, name, outcome): number
        for task, name, *counts in ROWS
        for outcome, number in zip(COUNTED, counts, strict=True)
        if number
    }
    assert all(r.oom_kills is r.block is r.started_at is r.cause is None for r in records)
    own = [r.sample for r in records if (r.task, r.parameter_set) == ("t1", "1x")]
    assert own == list(range(1, 16))
    facts = study.manifest
    assert (facts.tasks, facts.parameter_sets, facts.baseline) == (("t1", "t2"), ("1x", "3x"), "1x")
    assert facts.samples is None
    assert facts.is_finished


@pytest.mark.parametrize(("options", "expected"), [((), "3x"), (("--baseline", "1x"), "1x")])
def test_the_first_set_is_the_baseline_unless_said_otherwise(
    options, expected, make_study, command
):
    rows = [("t1", "3x", 1, 0, 0, 0, 0), ("t1", "1x", 0, 1, 0, 0, 0)]
    study = make_study(rows, *options)
    assert load_study(study).manifest.baseline == expected
    _, out, _ = command("report", study, "--format", "json")
    assert json.loads(out)["baseline"] == expected


def test_a_baseline_that_is_none_of_the_sets(write_csv, command, tmp_path):
    file = write_csv(table(ROWS))
    code, _, err = command("import", "counts", file, "-o", tmp_path / "s", "--baseline", "5x")
    assert (code, err.count("\n")) == (4, 1)
    assert "1x, 3x" in err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + table(ROWS),
        table(ROWS).replace("\n", "\r\n"),
        table(ROWS).rstrip("\n"),
        table(ROWS).replace("t1,1x,1,2", ' t1 , 1x ,1.0," 2"'),
        table(ROWS).replace("\n", "\n\n  \n"),
        "\n".join(",".join(reversed(line.split(","))) for line in table(ROWS).splitlines()),
    ],
    ids=["bom", "crlf", "no-end", "blanks", "blank-lines", "other-order"],
)
def test_spellings_of_one_table(text, write_csv, command, tmp_path):
    assert command("import", "counts", write_csv(text), "-o", tmp_path / "s")[0] == 0
    known = load_study(tmp_path / "s").table()
    assert (known.tasks, known.parameter_sets, len(known)) == (["t1", "t2"], ["1x", "3x"], 31)


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        (b"", 0, "column task"),
        (HEADER.replace("oom", "killed"), 1, "column oom"),
        (HEADER + ",note\nt,1x,1,0,0,0,0,x", 1, "'note'"),
        (HEADER + ",oom\nt,1x,1,0,0,0,0,0", 1, "column oom"),
        (HEADER.replace(",", ";"), 1, "commas"),
        (HEADER, None, "no trial"),
        (HEADER + "\nt,1x,0,0,0,0,0", None, "no trial"),
        (HEADER + "\nt,1x,1,0,0,0", 2, "6 fields"),
        (HEADER + "\nt,1x,1,0,0,0,0\nt,3x,1,x,0,0,0", 3, "column failed: 'x'"),
        (HEADER + "\nt,1x,-1,0,0,0,0", 2, "column passed: '-1'"),
        (HEADER + "\nt,1x,1.5,0,0,0,0", 2, "column passed: '1.5'"),
        (HEADER + "\nt,1x,1,,0,0,0", 2, "column failed: ''"),
        (HEADER + "\nt,1x,1,nan,0,0,0", 2, "column failed"),
        (HEADER + "\nt,1x,999999999999,0,0,0,0", 2, "more than"),
        (HEADER + "\n ,1x,1,0,0,0,0", 2, "column task: is empty"),
        (HEADER + "\nt,,1,0,0,0,0", 2, "column parameter_set: is empty"),
        (HEADER + "\nt\x1b[2J,1x,1,0,0,0,0", 2, "unprintable"),
        (HEADER + '\n"t\nu",1x,1,0,0,0,0', 3, "unprintable"),
        (HEADER + "\nt,1x,1,0,0,0,0\n\nt,1x,1,0,0,0,0", 4, "line 2"),
        (HEADER + '\n"t"x,1x,1,0,0,0,0', 2, "not CSV"),
        (HEADER + '\n"t,1x,1,0,0,0,0\n', 2, "not CSV"),
        (HEADER.encode() + b"\nt\xff,1x,1,0,0,0,0", 2, "UTF-8"),
    ],
)
def test_a_bad_table_is_one_line_with_its_place(text, line, named, write_csv, command, tmp_path):
    file = write_csv(text)
    code, out, err = command("import", "counts", file, "-o", tmp_path / "study")
    assert (code, out, err.count("\n")) == (4, "", 1)
    place = f"{file}: " if line is None else f"{file}:{max(line, 1)}: "
    assert err.startswith(f"infranoise: {place}")
    assert named in err
    assert not (tmp_path / "study").exists()


def test_a_folder_that_holds_a_study_is_refused(make_study, write_csv, command):
    study = make_study(ROWS)
    before = (study / "trials.jsonl").read_bytes()
    code, _, err = command("import", "counts", write_csv(table(ROWS)), "-o", study)
    assert code == 4
    assert "already holds a study" in err
    assert (study / "trials.jsonl").read_bytes() == before


def test_a_file_in_the_place_of_the_folder(write_csv, command, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, err = command("import", "counts", write_csv(table(ROWS)), "-o", tmp_path / "taken")
    assert (code, err.count("\n")) == (4, 1)
    assert "taken" in err


@pytest.mark.parametrize("place", ["new", "empty"])
def test_a_full_disk_leaves_nothing_behind(place, write_csv, command, tmp_path, monkeypatch):
    study = tmp_path / "study"
    if place == "empty":
        study.mkdir()
    real, calls = os.pwrite, []

    def full(file, data, offset):
        calls.append(offset)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[: len(data) // 2], offset)

    monkeypatch.setattr(os, "pwrite", full)
    code, _, err = command("import", "counts", write_csv(table(ROWS)), "-o", study)
    assert (code, err.count("\n")) == (3, 1)
    assert "No space left" in err
    assert len(calls) == 2
    assert not study.exists() if place == "new" else not any(study.iterdir())


_names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
_counts = st.tuples(*[st.integers(0, 3)] * 5)


@settings(deadline=None)  # it writes files
@given(st.dictionaries(st.tuples(_names, _names), _counts, min_size=1, max_size=6))
def test_counts_come_back_whatever_the_names(tmp_path_factory, cells):
    rows = [CountRow(task, name, counts) for (task, name), counts in cells.items()]
    folder = tmp_path_factory.mktemp("import")
    file = folder / "table.csv"
    with file.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(HEADER.split(","))
        writer.writerows([row.task, row.parameter_set, *row.counts] for row in rows)
    if not any(any(row.counts) for row in rows):
        with pytest.raises(UsageError, match="no trial"):
            import_counts(file, folder / "study")
        return
    assert import_counts(file, folder / "study") == CountTable(rows)
    study = load_study(folder / "study")
    found = Counter(
        (record["task"], record["parameter_set"], record["outcome"]) for record in study.records()
    )
    assert found == {
        (row.task, row.parameter_set, outcome.value): number
        for row in rows
        for outcome, number in zip(COUNTED, row.counts, strict=True)
        if number
    }
    assert study.manifest.tasks == tuple(dict.fromkeys(row.task for row in rows))
