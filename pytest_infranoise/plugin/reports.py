"""The files that a session writes at its end, and the job summary of GitHub Actions."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_infranoise.errors import InfranoiseError
from pytest_infranoise.plugin.recorder import StudyRecorder
from pytest_infranoise.report.model import Line

if TYPE_CHECKING:
    from pytest_infranoise.analysis.gates import GateResult
    from pytest_infranoise.report.files import Report
    from pytest_infranoise.report.view import StudyView

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
STEP_SUMMARY_BYTES = 1024 * 1024
"""GitHub drops the whole summary of a step that is larger."""


def report_lines(
    recorder: StudyRecorder, view: "StudyView", gates: Sequence["GateResult"] = ()
) -> Iterator[Line]:
    """Write what was asked for, and yield a line for each; what cannot be written is a warning."""
    files, summary = recorder.runtime.settings.reports, os.environ.get(STEP_SUMMARY)
    if not files and not summary:
        return
    from pytest_infranoise.report.files import Report, write_files

    view = replace(view, manifest=recorder.last_manifest)
    report = Report(view, lambda: recorder.all_records, gates, tuple(recorder.problems))
    for file in files:
        try:
            for written in write_files(report, [file]):
                yield Line(f"report: {_shown(written, recorder)}")
        except Exception as error:  # noqa: BLE001 - the session's result stands without it
            yield Line(f"report: {_problem(error, file)}", "bad")
    if summary:
        try:
            add_step_summary(Path(summary), report)
        except Exception as error:  # noqa: BLE001 - the session's result stands without it
            yield Line(f"{STEP_SUMMARY}: {_problem(error, Path(summary))}", "warn")


def _problem(error: Exception, file: Path) -> str:
    if isinstance(error, InfranoiseError):
        return str(error)
    if isinstance(error, OSError):
        return f"{file}: cannot be written: {error.strerror}"
    return f"{file}: not written: {type(error).__name__}: {error}"


def _shown(path: Path, recorder: StudyRecorder) -> Path:
    base = recorder.runtime.config.invocation_params.dir
    return path.relative_to(base) if path.is_relative_to(base) else path


def add_step_summary(file: Path, report: "Report") -> None:
    """Append the report as Markdown to the summary of the job's step.

    Raises:
        InfranoiseError: it would not fit any more.
        OSError: the file cannot be written.
    """
    from pytest_infranoise.report.markdown import to_markdown

    text = to_markdown(report.page).encode()
    size = file.stat().st_size if file.exists() else 0
    if size + len(text) + 1 > STEP_SUMMARY_BYTES:
        raise InfranoiseError(f"{file}: no room is left for the report")
    with file.open("ab") as target:
        target.write(b"\n" + text if size else text)
