"""Reports that a session writes by itself: files, the job's summary, JUnit XML."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench import Bench

from pytest_infranoise.plugin import reports

SWEEP = ("--infra-multipliers=1,4", "--infra-exit=study")


def properties(file: Path) -> list[dict[str, str]]:
    cases = ElementTree.parse(file).getroot().iter("testcase")
    return [
        {item.get("name", ""): item.get("value", "") for item in case.iter("property")}
        for case in cases
    ]


def test_one_session_writes_every_kind_of_report(
    local_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, path = local_bench, local_bench.path
    bench.standard()
    (path / "summary.md").write_text("# Job\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path / "summary.md"))
    files = [f"report{kind}" for kind in (".html", ".md", ".json", ".csv")]
    written = [f"--infra-report={name}" for name in files]
    result = bench.run(*SWEEP, *written, "--junitxml=junit.xml", "-n2")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines([f"report: {name}" for name in files])

    assert (path / "report.html").read_text().count("<h1>") == 1
    markdown = (path / "report.md").read_text()
    made = "<sub>"  # the line that holds the time at which a report was made
    assert (path / "summary.md").read_text().partition(made)[0] == (
        "# Job\n\n" + markdown.partition(made)[0]
    )
    assert "- **ended**: 20" in markdown
    records = {(item["task"], item["parameter_set"]): item for item in bench.records()}
    rows = list(csv.DictReader((path / "report.csv").read_text().splitlines()))
    assert {(row["task"], row["parameter_set"]): row["outcome"] for row in rows} == bench.outcomes()
    assert json.loads((path / "report.json").read_text())["analysis"]["n_trials"] == len(records)

    found = properties(path / "junit.xml")
    assert len(found) == len(records)
    for case in found:
        record = records[case["infranoise.task"], case["infranoise.parameter_set"]]
        assert case["infranoise.outcome"] == record["outcome"]
        assert case["infranoise.oom_kills"] == str(record["oom_kills"])
        assert case["infranoise.memory_peak_bytes"] == str(record["memory_peak_bytes"])
        assert ("infranoise.cause" in case) == (record["cause"] is not None)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("report.pdf", "is not a kind of report; end its name in .html, .md, .json, .csv"),
        ("missing/report.html", "is not a folder; make it first"),
        ("bench", "is not a kind of report"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_anything_runs(
    plain_bench: Bench, file: str, words: str
) -> None:
    plain_bench.standard()
    result = plain_bench.run(*SWEEP, f"--infra-report={file}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in result.errlines if line]
    assert line.startswith("ERROR: --infra-report: ")
    assert words in line
    assert not plain_bench.studies()


def test_a_report_that_cannot_be_written_at_the_end_costs_nothing_else(
    local_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = local_bench
    bench.task("calm")
    folder = bench.path / "reports"
    folder.mkdir()
    (bench.path / "conftest.py").write_text(
        "import shutil\n"
        "def pytest_sessionfinish():\n"
        f"    shutil.rmtree({str(folder)!r}, ignore_errors=True)\n"
    )
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(bench.path / "nowhere" / "summary.md"))
    result = bench.run("--infra-multipliers=1", "--infra-report=reports/report.html")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "report: *reports/report.html: cannot be written: No such file or directory",
            "GITHUB_STEP_SUMMARY: *summary.md: cannot be written: No such file or directory",
            "exit code 0: every trial passed",
        ]
    )


def test_the_summary_of_a_job_is_never_made_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_infranoise.errors import InfranoiseError

    class Written:
        page = None

    monkeypatch.setattr("pytest_infranoise.report.markdown.to_markdown", lambda page: "x" * 1000)
    file = tmp_path / "summary.md"
    reports.add_step_summary(file, Written())  # type: ignore[arg-type]
    assert file.read_text() == "x" * 1000
    file.write_bytes(b"y" * (reports.STEP_SUMMARY_BYTES - 1001))
    reports.add_step_summary(file, Written())  # type: ignore[arg-type]
    assert file.stat().st_size == reports.STEP_SUMMARY_BYTES
    with pytest.raises(InfranoiseError, match="no room is left"):
        reports.add_step_summary(file, Written())  # type: ignore[arg-type]
    assert file.stat().st_size == reports.STEP_SUMMARY_BYTES
