"""One memory ceiling over all sandboxes of a study: their thresholds together cannot take the host.

Guarantees fit what the host can give, kill thresholds together may not. A ceiling is a cgroup
around the sandboxes' own; a kill that it causes is not one at a sandbox's own threshold, and the
counters tell the two apart.

Every process that uses a ceiling holds a shared lock on its folder, so one that nobody holds is
left over from a dead run; the next study to start removes it.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_infranoise.backends.cgroup_paths import Hierarchies

PREFIX = "infranoise-study-"
SLICE_PREFIX = "infranoise_study_"

_REMOVE_SECONDS = 2.0
_PAUSE_SECONDS = 0.02
_SYSTEMD_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class CeilingPlace:
    """Where ceilings are made: the folder of the memory controller, and its cgroup version.

    `others` are the folders of version 1's other controllers in which the engine makes cgroups of
    the same name; they are removed along with the ceiling.
    """

    version: int
    memory: Path
    others: tuple[Path, ...] = ()


class Ceilings:
    """The ceilings that this process uses, one per study."""

    prefix = PREFIX

    def __init__(self, place: CeilingPlace) -> None:
        self._place = place
        self._locks: dict[str, int] = {}

    def folder(self, study: str) -> Path:
        """Return the memory folder of a study's ceiling."""
        return self._place.memory / self.name(study)

    def name(self, study: str) -> str:
        """Return what the engine is told to put sandboxes into, as a name in the place."""
        return self.prefix + _word(study)

    def make(self, study: str, limit_bytes: int, *, allow_swap: bool = False) -> Path:
        """Make a study's ceiling, whoever asks first, and return its memory folder.

        Swap would be a way out of it for a trial without a limit of its own, unless it is allowed.

        Raises:
            OSError: the kernel or the service manager refused.
        """
        folder = self.folder(study)
        if study not in self._locks or not folder.is_dir():
            self._release(study)
            self._remove_dead()
            self._locks[study] = self._enter(study, limit_bytes)
        self._limit(folder, limit_bytes, allow_swap=allow_swap)
        return folder

    def _enter(self, study: str, limit_bytes: int) -> int:
        folder = self.folder(study)
        while True:
            self._create(study, limit_bytes)
            with contextlib.suppress(FileNotFoundError):
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(lock, fcntl.LOCK_SH)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(lock), folder.stat()):
                        return lock
                os.close(lock)  # somebody took it for left over meanwhile

    def _create(self, study: str, limit_bytes: int) -> None:
        self.folder(study).mkdir(exist_ok=True)

    def _limit(self, folder: Path, limit_bytes: int, *, allow_swap: bool) -> None:
        if self._place.version == 2:
            _write(folder / "memory.max", limit_bytes)
            self._limit_swap(folder / "memory.swap.max", "max" if allow_swap else 0)
            return
        with contextlib.suppress(OSError):  # always so on current kernels
            _write(folder / "memory.use_hierarchy", 1)
        both = folder / "memory.memsw.limit_in_bytes"  # never below the other one
        self._limit_swap(both, -1)
        _write(folder / "memory.limit_in_bytes", limit_bytes)
        self._limit_swap(both, -1 if allow_swap else limit_bytes)

    def _limit_swap(self, file: Path, value: int | str) -> None:
        with contextlib.suppress(OSError):  # not there on a kernel that does not account for swap
            if file.exists():
                _write(file, value)

    def _delete(self, name: str) -> None:
        """Remove an empty ceiling; OSError as long as it is in use."""
        _remove_inner(self._place.memory / name)
        (self._place.memory / name).rmdir()
        for place in self._place.others:
            _remove_empty(place / name)

    def remove(self, study: str) -> None:
        """Remove a study's ceiling once its last sandbox is gone; waits a little for that.

        Where others still use it, it stays.
        """
        self._release(study)
        until = time.monotonic() + _REMOVE_SECONDS
        while not self._try_remove(self.name(study)) and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)

    def _try_remove(self, name: str) -> bool:
        """Remove a ceiling that nobody holds and nothing is in; whether it is gone."""
        try:
            self.remove_unheld(name)
        except OSError:
            return False
        return True

    def remove_unheld(self, name: str) -> None:
        """Remove the ceiling of that name.

        Raises:
            OSError: somebody holds it, or something is in it.
        """
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(self._place.memory / name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._delete(name)
            finally:
                os.close(lock)

    def _remove_dead(self) -> None:
        for folder in self._existing():
            self._try_remove(folder.name)

    def _existing(self) -> Iterator[Path]:
        yield from self._place.memory.glob(f"{self.prefix}*/")

    def _release(self, study: str) -> None:
        lock = self._locks.pop(study, None)
        if lock is not None:
            os.close(lock)

    def close(self) -> None:
        """Let go of every ceiling; they stay for the other processes of their runs."""
        for study in list(self._locks):
            self._release(study)

    def try_out(self) -> None:
        """Make a ceiling and remove it again.

        Raises:
            OSError: it cannot be done here; the message says what was refused.
        """
        name = f"try-{os.getpid()}-{time.monotonic_ns():x}"
        try:
            self.make(name, 1 << 30)
        finally:
            self.remove(name)


class SliceCeilings(Ceilings):
    """Ceilings where systemd keeps the cgroups: a transient slice for each.

    A dash in a slice's name would put it below another slice, so there is none.
    """

    prefix = SLICE_PREFIX

    def name(self, study: str) -> str:
        """Return the slice's name."""
        return self.prefix + _word(study).replace("-", "_") + ".slice"

    def _create(self, study: str, limit_bytes: int) -> None:
        if self.folder(study).is_dir():
            return
        name = self.name(study)
        self._call(
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            name,
            "fail",
            "2",
            "MemoryAccounting",
            "b",
            "true",
            "MemoryMax",
            "t",
            str(limit_bytes),
            "0",
        )
        until = time.monotonic() + _SYSTEMD_SECONDS
        while not self.folder(study).is_dir():
            if time.monotonic() > until:
                raise OSError(f"systemd started {name}, but its cgroup does not appear")
            time.sleep(_PAUSE_SECONDS)

    def _delete(self, name: str) -> None:
        folder = self._place.memory / name
        _remove_inner(folder)
        if any(path.is_dir() for path in folder.iterdir()):
            raise OSError(f"{name} is in use")
        self._call("StopUnit", "ss", name, "replace")
        until = time.monotonic() + _SYSTEMD_SECONDS
        while folder.is_dir() and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)

    def _call(self, method: str, *arguments: str) -> None:
        manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
        command = ["busctl", "--no-pager", "call", *manager, f"{manager[0]}.Manager", method]
        if shutil.which("busctl") is None:
            raise OSError("busctl is not installed, so systemd cannot be asked for a slice")
        try:
            done = subprocess.run(
                [*command, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SYSTEMD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OSError(f"systemd does not answer {method}") from None
        if done.returncode != 0 and "already exists" not in done.stderr:
            raise OSError(f"systemd refused {method}: {done.stderr.strip()[-200:]}")


def share_protection(folder: Path) -> None:
    """Protect in a version 2 ceiling what is protected below it, else the kernel counts it as none.

    More would be handed on to trials that no guarantee speaks for. Other folders are left alone.
    """
    if not folder.name.startswith((PREFIX, SLICE_PREFIX)):
        return
    with contextlib.suppress(OSError):
        lock = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in ("memory.min", "memory.low"):
                claims = (_number(inner / name) for inner in folder.iterdir() if inner.is_dir())
                _write(folder / name, sum(claims))
        finally:
            os.close(lock)


def _number(file: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return 0


def find_unheld(trees: Hierarchies) -> Iterator[tuple[str, Path, Callable[[], None]]]:
    """Yield the ceilings on this host that no process holds: study, folder, and what removes it.

    What removes it raises OSError while something is still in it. A study's own dashes cannot be
    told from those that a slice's name has in their place.
    """
    for top, inner, _ in os.walk(trees.memory):
        folder = Path(top)
        for name in sorted(item for item in inner if item.startswith((PREFIX, SLICE_PREFIX))):
            inner.remove(name)
            kind = SliceCeilings if name.startswith(SLICE_PREFIX) else Ceilings
            if not _is_held(folder / name):
                study = name.removeprefix(kind.prefix).removesuffix(".slice")
                ceilings = kind(CeilingPlace(trees.version, folder, trees.others))
                yield study, folder / name, partial(ceilings.remove_unheld, name)


def _is_held(folder: Path) -> bool:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True  # gone meanwhile, or none of our business
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _word(study: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", study)


def _write(file: Path, value: int | str) -> None:
    file.write_text(str(value), encoding="ascii")


def _remove_empty(folder: Path) -> None:
    """Remove a folder with what the engine left empty in it."""
    _remove_inner(folder)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _remove_inner(folder: Path) -> None:
    """Remove the cgroups in a folder that sandboxes left without a process; others stay."""
    for inner, _, _ in os.walk(folder, topdown=False):
        if Path(inner) != folder:
            with contextlib.suppress(OSError):
                Path(inner).rmdir()
