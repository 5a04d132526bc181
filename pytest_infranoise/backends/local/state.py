"""The run folder: where sandboxes and layers lie on disk, and how what a dead run left is found.

`<base>/infranoise-local-<uid>/` holds `sandboxes/<token>/` (one per open trial, with `state.json`)
and `layers/` (made once per content). Every process that uses it holds a shared lock on the folder;
who gets the exclusive lock is alone, so everything of ours there is left over and goes.
"""

import contextlib
import fcntl
import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_infranoise.backends.local.cgroups import remove_cgroup
from pytest_infranoise.backends.local.hostmounts import mount_of, read_mounts
from pytest_infranoise.backends.local.view import remove_tree
from pytest_infranoise.errors import BackendUnavailableError

FOLDER_VARIABLE = "INFRANOISE_LOCAL_DIR"
_STATE = "state.json"
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What a stranger needs to remove a sandbox: known before anything of it exists.

    `holder` is the host's process id and start time of the holder, once it runs.
    """

    study: str
    trial: str
    owner: str
    cgroups: tuple[str, ...] = ()
    holder: tuple[int, int] | None = None


def choose_base() -> Path:
    """Return a folder on disk for upper layers: $INFRANOISE_LOCAL_DIR, /var/tmp, the temp folder.

    Raises:
        BackendUnavailableError: none of them is writable and on a file system that fits.
    """
    chosen = os.environ.get(FOLDER_VARIABLE)
    names = [chosen] if chosen else ["/var/tmp", tempfile.gettempdir()]
    mounts = read_mounts()
    tried = []
    for name in dict.fromkeys(names):
        folder = Path(os.path.realpath(name))
        if not os.access(folder, os.W_OK | os.X_OK):
            tried.append(f"{name} is not a writable folder")
            continue
        mount = mount_of(folder, mounts)
        if mount.can_hold_layers:
            return folder
        tried.append(f"{name} is on {mount.kind}")
    raise BackendUnavailableError(
        f"local backend: no disk folder for the trials' files ({'; '.join(tried)}); "
        f"set ${FOLDER_VARIABLE} to a folder on a disk file system"
    )


def run_folder_path(base: Path) -> Path:
    """Return where this user's run folder is below a base; only this module makes it."""
    return base / f"infranoise-local-{os.geteuid()}"


class RunFolder:
    """This user's run folder, held by a shared lock until `close`."""

    def __init__(self, base: Path) -> None:
        self.path = run_folder_path(base)
        self._lock = self._enter()
        self.sandboxes = self.path / "sandboxes"
        self.layers = self.path / "layers"
        self.sandboxes.mkdir(exist_ok=True)
        self.layers.mkdir(exist_ok=True)

    def _enter(self) -> int:
        while True:
            try:
                self.path.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise BackendUnavailableError(
                    f"local backend: {self.path} cannot be made: {error.strerror}; "
                    f"set ${FOLDER_VARIABLE} to a folder on a disk file system"
                ) from error
            if self.path.is_symlink() or self.path.stat().st_uid != os.geteuid():
                raise BackendUnavailableError(
                    f"local backend: {self.path} belongs to somebody else; "
                    f"set ${FOLDER_VARIABLE} to a folder of your own"
                )
            try:
                lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            fcntl.flock(lock, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), self.path.stat()):
                    return lock
            os.close(lock)  # the last user removed it meanwhile

    def layer(self, key: str, build: Callable[[Path], None]) -> Path:
        """Return the layer of a content, built by the first who asks for it."""
        place = self.layers / key.replace(":", "-")
        with self._building():
            if not place.is_dir():
                making = self.layers / f"making-{secrets.token_hex(4)}"
                making.mkdir()
                try:
                    build(making)
                    making.rename(place)
                except BaseException:
                    remove_tree(making)
                    raise
        return place

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        lock = os.open(self.layers, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def new_sandbox(self, token: str, state: SandboxState) -> Path:
        """Make a sandbox's folder, with its state in it."""
        folder = self.sandboxes / token
        folder.mkdir(mode=0o700)
        write_state(folder, state)
        return folder

    def sweep(self, study: str | None, owner: str | None = None) -> int:
        """Remove the sandboxes of a study (None: of any) and owner; return how many there were."""
        found = 0
        for folder in sorted(self.sandboxes.iterdir()):
            state = read_state(folder)
            if state is None:
                continue
            if study in (None, state.study) and owner in (None, state.owner):
                found += 1
                remove_sandbox(folder, state)
        return found

    def close(self) -> None:
        """Leave the folder; the last one out removes it with all that dead runs left there."""
        if self._lock < 0:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            with contextlib.suppress(FileNotFoundError):
                self.sweep(None)
            for folder in (self.sandboxes, self.layers):
                remove_tree(folder)
            with contextlib.suppress(OSError):  # what is not ours stays
                self.path.rmdir()
        os.close(self._lock)
        self._lock = -1


def write_state(folder: Path, state: SandboxState) -> None:
    """Write a sandbox's state whole or not at all."""
    making = folder / f"{_STATE}.new"
    making.write_text(json.dumps(asdict(state)), encoding="utf-8")
    making.replace(folder / _STATE)


def read_state(folder: Path) -> SandboxState | None:
    """Read a sandbox's state; None if there is none."""
    try:
        values = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        holder = values.pop("holder")
        cgroups = tuple(values.pop("cgroups"))
        return SandboxState(
            **values, cgroups=cgroups, holder=None if holder is None else (holder[0], holder[1])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_sandbox(folder: Path, state: SandboxState) -> None:
    """End a sandbox's processes and remove its cgroups and files, whoever opened it."""
    if state.holder is not None:
        end_process(*state.holder)
    for name in state.cgroups:
        remove_cgroup(Path(name))
    remove_tree(folder)


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def end_process(pid: int, started: int) -> None:
    """Kill a process if it is still the one that started then, and wait until it is gone."""
    deadline = time.monotonic() + _END_SECONDS
    while start_time(pid) == started and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
