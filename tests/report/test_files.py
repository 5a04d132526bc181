"""Reports as files: kinds, places, and the same figures in all of them."""

import csv
import json
from pathlib import Path

import pytest
from written import a_view, some_records

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.report.export import COLUMNS
from pytest_infranoise.report.files import KINDS, Report, check_files, write_files
from pytest_infranoise.report.properties import NAMES, trial_properties


def a_report():
    return Report(a_view(), some_records)


def test_every_kind_is_written_and_nothing_else(tmp_path):
    files = [tmp_path / f"report{kind}" for kind in KINDS]
    check_files(files, where="-o")
    assert list(write_files(a_report(), [*files, files[0]])) == files
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert files[0].read_text("utf-8").startswith("<!DOCTYPE html>")
    assert files[1].read_text("utf-8").startswith("## Infrastructure noise")


def test_json_is_the_analysis_with_every_trial(tmp_path):
    [file] = write_files(a_report(), [tmp_path / "report.JSON"])
    values = json.loads(file.read_text("utf-8"))
    assert values["gates"] == []
    assert values["study"] == "2026-12-01T10-22-31Z-5f3a"
    assert values["analysis"] == json.loads(json.dumps(a_view().analysis.to_json()))
    assert [row["outcome"] for row in values["trials"]].count("oom") == 4
    assert set(values["trials"][0]) == set(COLUMNS)


def test_csv_has_one_row_per_trial(tmp_path):
    [file] = write_files(a_report(), [tmp_path / "report.csv"])
    with file.open(encoding="utf-8", newline="") as source:
        rows = list(csv.DictReader(source))
    assert len(rows) == len(some_records())
    assert rows[0]["memory_multiplier"] == "1.0"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    file = tmp_path / "report.md"
    file.write_text("old")
    broken = a_view()
    broken.manifest["parameter_sets"][0]["memory_multiplier"] = -1
    with pytest.raises(UsageError, match="not a multiplier"):
        list(write_files(Report(broken, some_records), [file]))
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["report.pdf", "report", ".html", "report.html.gz", "md"])
def test_another_kind_is_refused(tmp_path, name):
    with pytest.raises(
        UsageError, match=r"^-o: .* is not a kind of report; end its name in \.html"
    ):
        check_files([tmp_path / name], where="-o")


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    for place, words in (
        ("folder.html", "is a folder"),
        ("missing/report.html", "is not a folder; make it first"),
        ("file/report.html", "is not a folder; make it first"),
        (f"{'x' * 300}.html", "File name too long"),
        (Path("/proc/report.html"), "cannot be written"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            check_files([tmp_path / place], where="-o")
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob(".*"))


def test_a_place_that_is_lost_later_is_named(tmp_path):
    with pytest.raises(InfranoiseError, match=r"report.csv: cannot be written: No such file"):
        list(write_files(a_report(), [tmp_path / "gone" / "report.csv"]))


def test_properties_leave_out_what_is_unknown():
    record = {**some_records()[0], "oom_kills": 0, "memory_peak_bytes": None, "score": 0.5}
    found = dict(trial_properties(record))
    assert found["infranoise.oom_kills"] == "0"
    assert found["infranoise.score"] == "0.5"
    assert "infranoise.memory_peak_bytes" not in found
    assert "infranoise.cause" not in found


def test_properties_are_documented_columns_of_the_export():
    assert set(NAMES) <= set(COLUMNS)
    page = (Path(__file__).parents[2] / "docs" / "reports.md").read_text("utf-8")
    documented = page.partition("## JUnit XML")[2]
    assert [name for name in NAMES if f"`{name}`" not in documented] == []
