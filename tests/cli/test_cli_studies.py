"""`compare`, `merge` and `export` as a user types them."""

import csv
import json
from pathlib import Path

import pytest
from cli_tables import table

from pytest_infranoise.cli.main import main

ROWS_A = [(f"t{n}", name, 3, 2, 0, 0, 0) for n in range(12) for name in ("1x", "3x")]
ROWS_B = [(f"t{n}", name, 5, 0, 0, 0, 0) for n in range(12) for name in ("1x", "3x")]


@pytest.fixture
def two_studies(tmp_path, capsys):
    folders = []
    for name, rows in (("a", ROWS_A), ("b", ROWS_B)):
        file = tmp_path / f"{name}.csv"
        file.write_text(table(rows))
        folders.append(tmp_path / name)
        assert main(["import", "counts", str(file), "-o", str(folders[-1])]) == 0
    capsys.readouterr()
    return folders


def test_compare_prints_configurations_first(two_studies, command):
    code, out, err = command("compare", *two_studies)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["configuration", "field", "a", "b"]
    assert lines[1].startswith("must be disclosed")
    assert "a 60.0% at 1x, b 100.0% at 1x: +40.0 points" in out
    assert "larger than sampling noise and infrastructure noise together" in out


def test_compare_as_json(two_studies, command):
    code, out, _ = command("compare", *two_studies, "--format", "json", "--pair", "1x:3x")
    data = json.loads(out)
    assert code == 0
    assert [(item["set_a"], item["set_b"]) for item in data["comparisons"]] == [("1x", "3x")]
    assert data["comparisons"][0]["difference"] == pytest.approx(0.4)
    assert {item["class"] for item in data["differences"]} <= {
        "makes incomparable", "must be disclosed", "harmless",
    }  # fmt: skip


def test_compare_says_by_its_code_that_two_are_incomparable(two_studies, command):
    file = two_studies[1] / "manifest.json"
    manifest = json.loads(file.read_text())
    for folder, digest in zip(two_studies, ("d", "e"), strict=True):
        own = json.loads((folder / "manifest.json").read_text())
        own["tasks"][0]["digest"] = digest
        (folder / "manifest.json").write_text(json.dumps(own))
    code, out, _ = command("compare", *two_studies)
    assert code == 1
    assert "makes incomparable  task content (1 of 12 tasks, as t0)" in out
    assert manifest["study"]


def test_compare_reads_cards(two_studies, command, tmp_path):
    card = tmp_path / "card.json"
    assert command("export", two_studies[0], "--card", card)[0] == 0
    code, out, _ = command("compare", card, two_studies[1])
    assert "unpaired" in out
    assert code == 0


def test_compare_scores(command):
    code, out, _ = command("compare", "--scores", "58.2,56.9", "--tasks", 89, "--samples", 5)
    assert code == 0
    assert out.splitlines()[1].split() == ["must", "be", "disclosed", "guarantee", *["unknown"] * 2]
    assert "-1.3 points, unpaired" in out
    assert "deserves scepticism" in out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["compare"], "name two studies"),
        (["compare", "x"], "name two studies"),
        (["compare", "/nowhere", "/else"], "/nowhere"),
        (["compare", "--scores", "58"], "--tasks"),
        (["compare", "--scores", "58", "--tasks", "9"], "two percentages"),
        (["compare", "--scores", "58,x", "--tasks", "9"], "two percentages"),
        (["compare", "--scores", "nan,3", "--tasks", "9"], "not between 0 and 100"),
        (["compare", "--scores", "158,3", "--tasks", "9"], "158"),
        (["compare", "--scores", "5,3", "--tasks", "0"], "--tasks"),
        (["compare", "x", "--scores", "5,3", "--tasks", "9"], "--scores stands for itself"),
        (["compare", "x", "y", "--tasks", "9"], "go with --scores"),
        (["merge", "-o", "x"], "STUDY"),
        (["merge", "/nowhere", "-o", "x"], "/nowhere"),
        (["merge", "x"], "-o"),
        (["export", "/nowhere", "-o", "x.csv"], "/nowhere"),
        (["export", "/nowhere"], "nothing to write"),
    ],
)
def test_a_mistake_is_one_line(arguments, named, command):
    code, out, err = command(*arguments)
    assert (code, out) == (4, "")
    assert err.count("\n") == 1
    assert named in err


def test_a_pair_is_checked(two_studies, command):
    for pair, named in (("1x", "is not A:B"), ("1x:9x", "'9x' is not a parameter set")):
        code, _, err = command("compare", *two_studies, "--pair", pair)
        assert code == 4
        assert named in err


def test_imported_counts_cannot_be_merged(two_studies, command, tmp_path):
    code, _, err = command("merge", *two_studies, "-o", tmp_path / "all")
    assert code == 4
    assert "imported counts cannot be merged" in err


def test_export_writes_what_it_was_asked_for(two_studies, command, tmp_path):
    trials, card = tmp_path / "trials.csv", tmp_path / "card.json"
    code, out, _ = command("export", two_studies[0], "-o", trials, "--card", card)
    assert code == 0
    assert out.splitlines()[0] == f"120 rows: {trials}"
    assert "inference endpoint" in out
    with trials.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 120
    assert len(json.loads(card.read_text())["card"]) == 10
    code, _, err = command("export", two_studies[0], "--card", Path("/nowhere/at/all.json"))
    assert code == 3
    assert "/nowhere/at/all.json: cannot be written" in err


def test_a_study_is_not_written_over_by_what_it_shows(two_studies, command):
    first, second = two_studies
    before = {path: path.read_bytes() for study in two_studies for path in study.iterdir()}
    manifest, journal = Path("manifest.json"), Path("trials.jsonl")
    for arguments in (
        ("report", first, "-o", first / manifest),
        ("report", first, "-o", second / manifest),
        ("export", first, "-o", first / manifest),
        ("export", first, "--card", first / manifest),
        ("export", first, "--card", second / journal),
        ("export", first, "--card", second / "looks.jsonl"),
    ):
        code, _, err = command(*arguments)
        assert code == 4
        assert f"{arguments[-1]} is a file of the study in " in err
        assert err.count("\n") == 1
    assert {path: path.read_bytes() for study in two_studies for path in study.iterdir()} == before
    assert command("export", first, "--card", first.parent / manifest)[0] == 0


def test_a_verbose_report_ends_with_the_card(two_studies, command):
    lines = command("report", "-v", two_studies[0])[1].splitlines()
    assert "disclosure card" in lines
    assert lines[-1].startswith("study: ")
    assert lines[-2].strip().startswith("inference endpoint")
    assert "disclosure card" not in command("report", two_studies[0])[1]
