"""Find task directories below the paths a user names, and read them all into one set.

Used by the controller before pytest collects anything, so it needs no pytest. Every mistake in
every task is reported in one go.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_infranoise.errors import UsageError, listing
from pytest_infranoise.model.task import Task
from pytest_infranoise.tasks.files import HARBOR_FILE, TERMINAL_BENCH_FILE, task_file
from pytest_infranoise.tasks.harbor import TaskReading, read_task
from pytest_infranoise.tasks.place import display_path
from pytest_infranoise.tasks.resources import ResourceDefaults
from pytest_infranoise.tasks.terminal_bench import read_terminal_bench

_SKIPPED_FOLDERS = frozenset({"node_modules"})
_TASK_PARTS = ("instruction.md", "environment", "tests", "steps", "run-tests.sh")


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a study in a stable order, with unique names.

    `warnings` holds each warning once, however many tasks it concerns. `files` maps the folder of a
    task in a suite's own format to the file that describes it, `excluded` the folder of a task that
    is left out unread to its name.
    """

    tasks: tuple[Task, ...] = ()
    warnings: tuple[str, ...] = ()
    files: Mapping[Path, Path] = field(default_factory=dict)
    excluded: Mapping[Path, str] = field(default_factory=dict)


Ask = Callable[[Path], Task | None]
"""Reads a file of a format that only the suite knows; None for any other file."""


def discover(
    paths: Sequence[Path],
    *,
    default_memory_bytes: int | None = None,
    default_cpu_cores: float | None = None,
    host_environment: Mapping[str, str],
    uses_solution: bool = True,
    ask: Ask | None = None,
    is_excluded: Callable[[str], bool] = lambda name: False,
) -> TaskSet:
    """Read every task directory at or below `paths`; the keywords are those of `read_task`.

    `ask` is asked about every file outside of tasks, and about each `task.toml` first: an answer
    makes the file's folder a task. A task whose name `is_excluded` is left out, whatever is in it.

    A task is called after its folder; where two folders share a name, by the shortest end of the
    path that tells them apart (`set-a/spike`).

    Raises:
        UsageError: what is wrong, one line per task; of many, one per kind (`errors.listing`).
    """
    own = _OwnFormats(ask)
    directories = find_task_directories(paths, own.claims)
    names = unique_names(directories)
    tasks: list[Task] = []
    errors: list[str] = []
    seen: dict[str, list[Path]] = {}
    excluded = {item: names[item] for item in directories if is_excluded(names[item])}
    for directory in (item for item in directories if item not in excluded):
        try:
            check_name(names[directory], directory)
            if directory in own.tasks:
                tasks.append(own.task(directory, names[directory]))
                continue
            reading = _read(
                directory,
                ResourceDefaults(default_memory_bytes, default_cpu_cores),
                host_environment,
                uses_solution,
            )
        except UsageError as error:
            errors.append(str(error))
            continue
        tasks.append(replace(reading.task, name=names[directory]))
        for warning in reading.warnings:
            seen.setdefault(warning, []).append(directory)
    if errors:
        raise UsageError(listing(errors))
    warnings = tuple(_once(text, where) for text, where in seen.items())
    return TaskSet(tuple(tasks), warnings, own.files, excluded)


def _read(
    directory: Path,
    defaults: ResourceDefaults,
    host_environment: Mapping[str, str],
    uses_solution: bool,
) -> TaskReading:
    """Read a task directory by the format of its file."""
    file = task_file(directory)
    if file is not None and file.name == TERMINAL_BENCH_FILE:
        return read_terminal_bench(
            directory,
            defaults=defaults,
            host_environment=host_environment,
            uses_solution=uses_solution,
        )
    return read_task(
        directory,
        default_memory_bytes=defaults.memory_bytes,
        default_cpu_cores=defaults.cpu_cores,
        host_environment=host_environment,
        uses_solution=uses_solution,
    )


class _OwnFormats:
    """What a suite makes of files that only it knows."""

    def __init__(self, ask: Ask | None) -> None:
        self.tasks: dict[Path, Task] = {}
        self.files: dict[Path, Path] = {}
        self._ask = ask

    def claims(self, folder: Path) -> bool:
        """Whether one of a folder's files is a task of the suite's own format."""
        if self._ask is None:
            return False
        for path in sorted(folder.iterdir()):
            task = self._ask(path) if path.is_file() else None
            if task is not None:
                self.tasks[folder], self.files[folder] = task, path
                return True
        return False

    def task(self, folder: Path, name: str) -> Task:
        return replace(self.tasks[folder], name=name, directory=folder)


def find_task_directories(
    paths: Iterable[Path], claims: Callable[[Path], bool] = lambda folder: False
) -> list[Path]:
    """Return the task directories at or below `paths`, absolute, each once, sorted by path.

    A folder with a `task.toml` (or Terminal-Bench 1's `task.yaml`, see `files`) is a task and a
    leaf: nothing inside it is looked at, and a path inside it stands for the whole task. Hidden
    folders and `node_modules` are skipped below the given paths, other names are not. Symlinked
    folders are followed; a folder that can be reached in two ways counts once, by its path without
    symlinks if there is one. A path that does not exist finds nothing: pytest itself reports it.
    `claims` says of further folders that they are tasks.

    Raises:
        UsageError: a folder cannot be read.
    """
    found: dict[tuple[int, int], Path] = {}
    walker = _Walker(claims)
    for path in paths:
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - must not resolve symlinks
        enclosing = _enclosing_task(absolute)
        if enclosing is None and absolute.is_file() and claims(absolute.parent):
            enclosing = absolute.parent
        elif enclosing is not None:
            claims(enclosing)  # a task.toml may be read by the suite too
        if enclosing is not None:
            found.setdefault(_identity(enclosing), enclosing)
        elif absolute.is_dir():
            walker.add(absolute)
    for directory in walker.tasks():
        found.setdefault(_identity(directory), directory)
    return sorted(found.values(), key=lambda directory: directory.parts)


def unique_names(directories: Sequence[Path]) -> dict[Path, str]:
    """Name each folder by the shortest end of its path that no other folder of its name shares."""
    groups: defaultdict[str, list[Path]] = defaultdict(list)
    for directory in directories:
        groups[directory.name].append(directory)
    names: dict[Path, str] = {}
    for group in groups.values():
        for directory in group:
            others = [other for other in group if other != directory]
            names[directory] = _shortest_end(directory, others)
    return names


def check_name(name: str, directory: Path) -> None:
    """Raise a `UsageError` if a task's name cannot be part of an item id and a record."""
    if "::" in name or not name.isprintable() or re.search(r"[\[\]]", name):
        shown = os.fsencode(directory).decode("utf-8", "backslashreplace")
        raise UsageError(
            f"{shown!r}: a task's folder name must be printable, without '::' and brackets, since "
            "it is part of item ids; rename it"
        )


class _Walker:
    """Walks folders without symlinks first, so that a real path wins over a linked one."""

    def __init__(self, claims: Callable[[Path], bool]) -> None:
        self._claims = claims
        self._pending: list[Path] = []
        self._links: list[Path] = []
        self._visited: set[tuple[int, int]] = set()

    def add(self, root: Path) -> None:
        self._pending.append(root)

    def tasks(self) -> Iterator[Path]:
        while self._pending or self._links:
            folder = self._pending.pop() if self._pending else self._links.pop(0)
            identity = _identity(folder)
            if identity in self._visited:
                continue
            self._visited.add(identity)
            if self._claims(folder) or task_file(folder) is not None:
                yield folder
            else:
                self._descend(folder)

    def _descend(self, folder: Path) -> None:
        try:
            with os.scandir(folder) as entries:
                names = sorted(
                    (entry.name, entry.is_symlink()) for entry in entries if _is_searched(entry)
                )
        except OSError as error:
            raise UsageError(
                f"{display_path(folder)}: cannot be searched for tasks: {error.strerror}"
            ) from None
        for name, is_link in names:
            (self._links if is_link else self._pending).append(folder / name)


def _is_searched(entry: "os.DirEntry[str]") -> bool:
    if entry.name.startswith(".") or entry.name in _SKIPPED_FOLDERS:
        return False
    try:
        return entry.is_dir()
    except OSError:  # a symlink that points at itself
        return False


def _enclosing_task(path: Path) -> Path | None:
    """Return the task directory that `path` is or lies in; the outermost, since it is a leaf."""
    outermost = None
    for folder in (path, *path.parents):
        if task_file(folder) is not None and (folder == path or _looks_like_task(folder)):
            outermost = folder
    if outermost is None and path.name == HARBOR_FILE and path.is_file():
        return path.parent
    return outermost


def _looks_like_task(folder: Path) -> bool:
    """Whether a folder above a given path is a task, and not just the home of a stray file."""
    return any((folder / part).exists() for part in _TASK_PARTS)


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{display_path(path)}: cannot be read: {error.strerror}") from None
    return status.st_dev, status.st_ino


def _shortest_end(directory: Path, others: Sequence[Path]) -> str:
    parts = directory.parts[1:]
    for length in range(1, len(parts)):
        end = parts[-length:]
        if all(other.parts[1:][-length:] != end for other in others):
            return "/".join(end)
    return "/".join(parts)


def _once(warning: str, directories: Sequence[Path]) -> str:
    first = display_path(directories[0])
    if len(directories) == 1:
        return f"{first}: {warning}"
    return f"{first} and {len(directories) - 1} more: {warning}"
