"""Reports as files: what kind one is says its name, and that it can be written is tried first."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TextIO

from pytest_infranoise.analysis.gates import GateResult
from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.report.accounts import accounts_json
from pytest_infranoise.report.export import rows, write_csv, write_json_rows
from pytest_infranoise.report.gates import gates_json
from pytest_infranoise.report.page import Page, make_page
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.study.files import replace_text
from pytest_infranoise.study.writer import refuse_own_file

KINDS = (".html", ".md", ".json", ".csv")


@dataclass(frozen=True)
class Report:
    """A study to write: its view, its records (read again for each file), and what was judged.

    `problems` are what went wrong while the study ran.
    """

    view: StudyView
    records: Callable[[], Iterable[Mapping[str, Any]]]
    gates: Sequence[GateResult] = ()
    problems: Sequence[str] = ()

    @cached_property
    def page(self) -> Page:
        """What HTML and Markdown say."""
        return make_page(self.view, self.records(), gates=self.gates, problems=self.problems)


def check_files(paths: Iterable[Path], *, where: str) -> None:
    """Refuse files of an unknown kind, and places that cannot be written.

    Raises:
        UsageError: one line that names the option, the file and the fix.
    """
    for path in paths:
        if path.suffix.lower() not in KINDS:
            raise UsageError(
                f"{where}: {path} is not a kind of report; end its name in {', '.join(KINDS)}"
            )
        refuse_own_file(path, where=where)
        try:
            _try_place(path, where)
        except OSError as error:
            raise UsageError(f"{where}: {path} cannot be written: {error.strerror}") from error


def _try_place(path: Path, where: str) -> None:
    """Make a file beside the one that is to come, and remove it."""
    if path.is_dir():
        raise UsageError(f"{where}: {path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"{where}: {path.parent} is not a folder; make it first")
    trial = path.with_name(f".{path.name}.{os.getpid()}")
    trial.touch()
    trial.unlink()


def write_files(report: Report, paths: Iterable[Path]) -> Iterator[Path]:
    """Write a report as each of the files, and yield those that are written.

    Raises:
        UsageError: the records cannot be read, or a file is a study's own.
        InfranoiseError: a file cannot be written.
    """
    writers: Mapping[str, Callable[[Report, TextIO], object]] = {
        ".html": _write_html,
        ".md": _write_markdown,
        ".json": _write_json,
        ".csv": _write_csv,
    }
    for path in dict.fromkeys(paths):
        write = writers[path.suffix.lower()]
        refuse_own_file(path, where="report")  # its study may have begun meanwhile
        try:
            replace_text(path, partial(write, report))
        except OSError as error:
            raise InfranoiseError(f"{path}: cannot be written: {error.strerror}") from error
        yield path


def _write_html(report: Report, target: TextIO) -> None:
    from pytest_infranoise.report.html import to_html

    target.write(to_html(report.page))


def _write_markdown(report: Report, target: TextIO) -> None:
    from pytest_infranoise.report.markdown import to_markdown

    target.write(to_markdown(report.page))


def _write_csv(report: Report, target: TextIO) -> None:
    write_csv(rows(report.records(), report.view.manifest), target)


def _write_json(report: Report, target: TextIO) -> None:
    """Write the analysis, as `infranoise report --format json` prints it, and the rest."""
    head: dict[str, Any] = {
        "study": report.view.manifest.get("study"),
        "analysis": report.view.analysis.to_json(),
        "gates": gates_json(report.gates),
        "accounts": accounts_json(report.view.accounts),
    }
    target.write(json.dumps(head, indent=2, allow_nan=False).removesuffix("\n}"))
    target.write(',\n  "trials": ')
    write_json_rows(rows(report.records(), report.view.manifest), target)
    target.write("}\n")
