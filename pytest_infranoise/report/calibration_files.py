"""What a calibration changes in the task files: planned as a whole before the first is written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_infranoise.analysis.calibration import TaskProposal
from pytest_infranoise.errors import UsageError
from pytest_infranoise.report.calibration import CalibratedTask, CalibrationReport
from pytest_infranoise.report.model import Line, one_line
from pytest_infranoise.statistics.thresholds import NeedStatus
from pytest_infranoise.tasks.bands import (
    BandEdit,
    Value,
    edit_band,
    read_changes,
    size_text,
    write_edit,
)
from pytest_infranoise.tasks.digest import directory_digest
from pytest_infranoise.tasks.harbor import TASK_FILE
from pytest_infranoise.tasks.place import display_path


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One task: what its file is to hold, or why it is left alone.

    `changes` are key, value before (None: absent) and after. `edit` is there if it may be written.
    `by_hand` is True for a marked test, whose values only its author can put into the marker.
    """

    task: str
    path: Path | None
    changes: tuple[tuple[str, Any, Value], ...] = ()
    left_out: str | None = None
    edit: BandEdit | None = None
    by_hand: bool = False


@dataclass(slots=True)
class Plan:
    """All task files of a calibration; `is_written` once `write` came to its end."""

    files: tuple[FilePlan, ...]
    is_written: bool = False

    @property
    def left_out(self) -> tuple[FilePlan, ...]:
        """The tasks whose values could stand in their files, but are not written."""
        return tuple(item for item in self.files if item.left_out is not None and not item.by_hand)

    def write(self) -> None:
        """Write every file that is to change, each in one step.

        Raises:
            InfranoiseError: one cannot be written; those before it are.
        """
        for item in self.files:
            if item.edit is not None and item.changes:
                write_edit(item.edit)
        self.is_written = True

    def lines(self) -> Iterator[Line]:
        """Yield one line per task, and whether anything was written."""
        for item in self.files:
            where = one_line(item.task if item.path is None else display_path(item.path), 120)
            if item.left_out is not None:
                yield Line(f"{where}: left alone: {one_line(item.left_out, 160)}", "warn")
            elif not item.changes:
                yield Line(f"{where}: has these values already", "dim")
            else:
                words = ", ".join(_change_words(*change) for change in item.changes)
                yield Line(f"{where}: {words}")
        changing = sum(bool(item.changes) and item.left_out is None for item in self.files)
        if self.is_written:
            yield Line(f"written: {changing} task files", "bold")
        elif changing:
            yield Line("nothing written; --write puts these into the task files", "bold")

    def to_json(self) -> dict[str, Any]:
        """Return builtins only."""
        return {
            "written": self.is_written,
            "tasks": [
                {
                    "task": item.task,
                    "file": None if item.path is None else str(item.path),
                    "left_alone": item.left_out,
                    "changes": [
                        {"key": key, "before": before, "after": after}
                        for key, before, after in item.changes
                    ],
                }
                for item in self.files
            ],
        }


def _change_words(key: str, before: Any, after: Value) -> str:
    shown = one_line(repr(after), 40).replace("'", '"')
    if before is None:
        return f"{key} = {shown}"
    old = one_line(repr(before), 40).replace("'", '"')
    return f"{key} = {shown} (was {old})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChoices:
    """The reader's choices about task files.

    Attributes:
        tasks: The folder that holds the tasks; None is where they ran.
        accept_provisional: Whether provisional values are good enough.
        accept_changed: Whether a task counts that is not the one that ran.
        write: Whether the new files are made ready, which needs tomlkit.
    """

    tasks: Path | None = None
    accept_provisional: bool = False
    accept_changed: bool = False
    write: bool = False


def plan_files(report: CalibrationReport, choices: FileChoices) -> Plan:
    """Return what is to change in each task's file.

    Raises:
        UsageError: a file cannot be read or changed, or tomlkit is missing.
    """
    files = []
    for item in report.calibration.tasks:
        task = report.tasks[item.task]
        reason = _not_to_publish(item, choices.accept_provisional)
        if reason is not None:
            files.append(FilePlan(item.task, None, left_out=reason))
        else:
            files.append(_plan(item, task, choices))
    return Plan(tuple(files))


def _not_to_publish(item: TaskProposal, accept_provisional: bool) -> str | None:
    if item.limit is None:
        return "its values are not known"
    if item.status is NeedStatus.PROVISIONAL and not accept_provisional:
        return "its values are provisional; --accept-provisional takes them"
    return None


def _plan(
    item: TaskProposal,
    task: CalibratedTask,
    choices: FileChoices,
) -> FilePlan:
    band = band_of(item, accept_provisional=choices.accept_provisional)
    if task.directory is None:
        values = ", ".join(f"{key} = {value}" for key, value in band.items())
        reason = f"a marked test has no task file; set its marker ({values})"
        return FilePlan(item.task, None, left_out=reason, by_hand=True)
    directory = _directory(task, choices.tasks)
    path = directory / TASK_FILE
    if not path.is_file():
        return FilePlan(item.task, path, left_out="not found; --tasks names the folder of tasks")
    changes = read_changes(path, band)
    if changes and not choices.accept_changed and directory_digest(directory) != task.digest:
        reason = "the task changed since it ran; run it again, or --accept-changed"
        return FilePlan(item.task, path, left_out=reason)
    return FilePlan(item.task, path, changes, edit=edit_band(path, band) if choices.write else None)


def band_of(item: TaskProposal, *, accept_provisional: bool) -> Mapping[str, Value]:
    """Return the keys of `[metadata.infranoise]`; CPU only where it is known to be too little.

    Raises:
        UsageError: the task's values are not known.
    """
    if item.guarantee is None or item.limit is None:
        raise UsageError(f"{item.task}: its values are not known")
    band: dict[str, Value] = {
        "memory_guarantee": size_text(item.guarantee),
        "memory_limit": size_text(item.limit),
    }
    if item.cpu_limit_cores is not None and (
        accept_provisional or item.cpu_status is NeedStatus.SHOWN
    ):
        band["cpus_limit"] = item.cpu_limit_cores
    return band


def _directory(task: CalibratedTask, tasks: Path | None) -> Path:
    """Return where a task stands: below `tasks` by its name, else where it ran."""
    assert task.directory is not None
    if tasks is None:
        return task.directory
    near = tasks / task.name
    if near.is_dir():
        return near
    # Names are no patterns: one may hold brackets or asterisks.
    files = sorted(tasks.rglob(TASK_FILE))
    deeper = [path.parent for path in files if path.parent.name == task.name]
    return deeper[0] if len(deeper) == 1 else near
