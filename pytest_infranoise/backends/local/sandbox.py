"""One open sandbox on this host."""

import contextlib
import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from pytest_infranoise.backends import base
from pytest_infranoise.backends.base import (
    OUTPUT_TAIL_BYTES,
    SYSTEM_FOLDERS,
    EffectiveLimits,
    Placement,
    Seen,
    StepResult,
    check_target,
)
from pytest_infranoise.backends.cgroup import read_counters, read_limits
from pytest_infranoise.backends.cgroup_paths import ceiling_of
from pytest_infranoise.backends.local.cgroups import TrialCgroup
from pytest_infranoise.backends.local.channel import Channel, HolderGoneError
from pytest_infranoise.backends.local.inside.files import look
from pytest_infranoise.backends.local.view import remove_tree
from pytest_infranoise.backends.local.watchdog import Watchdog
from pytest_infranoise.backends.output import OutputTail
from pytest_infranoise.closing import Closing
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Counters, Ending

WATCHDOG = "watchdog"

_KILL_SECONDS = 30.0
_KILL_COUNT_SECONDS = 0.1
_KILL_COUNT_PAUSE_SECONDS = 0.002
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a sandbox consists of on the host.

    `cgroup` is None where none can be written; then a watchdog enforces `memory_limit_bytes`.
    `environment` and `workdir` hold for every step that does not say otherwise. `layer` is the
    folder with what the task's Dockerfile lays over the host's files.
    """

    channel: Channel
    folder: Path
    cgroup: TrialCgroup | None
    memory_limit_bytes: int | None
    environment: Mapping[str, str]
    workdir: str
    as_user: bool
    layer: Path | None = None


class LocalSandbox(Closing):
    """A running holder with its view and limits (`base.Sandbox`)."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._channel = opened.channel
        self._last_kills = 0
        self._closing = threading.Lock()
        self._is_closed = False
        self._watchdog = self._start_watchdog()

    def _start_watchdog(self) -> Watchdog | None:
        limit, channel = self._opened.memory_limit_bytes, self._channel
        if self._opened.cgroup is not None or limit is None:
            return None
        assert channel.holder_pid is not None
        assert channel.shared_memory is not None
        return Watchdog(channel.holder_pid, limit, channel.shared_memory)

    @property
    def holder_pid(self) -> int | None:
        """The host's process id of the holder: process 1 inside."""
        return self._channel.holder_pid

    # --- steps -----------------------------------------------------------------------------------

    def exec(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        tail_bytes: int = OUTPUT_TAIL_BYTES,
    ) -> StepResult:
        """Run one command to its end or its deadline (`base.Sandbox.exec`)."""
        begun = time.monotonic()
        request = {
            "kind": "exec",
            "command": list(command),
            "environment": {**self._opened.environment, **(environment or {})},
            "workdir": workdir or self._opened.workdir,
            "makes_workdir": workdir in (None, self.workdir),
            "user": user,
            "may_set_groups": not self._opened.as_user,
            "tail_bytes": tail_bytes,
        }
        deadline = None if timeout_seconds is None else begun + timeout_seconds
        ending = Ending.EXIT
        with self._holder_calls("running a step"), self._channel.ask(request) as question:
            try:
                answer = question.answer(deadline)
            except TimeoutError:
                ending = Ending.DEADLINE
                self.kill_all()
                answer = question.answer(time.monotonic() + _KILL_SECONDS)
        wall_seconds = time.monotonic() - begun
        if "error" in answer:
            raise SandboxError(Cause.ENGINE, f"local backend: no step: {answer['error']}")
        output = OutputTail(tail_bytes)
        output.add(answer["output"])
        output.total_bytes = answer["output_bytes"]
        return StepResult(
            ending=ending,
            exit_code=answer["exit_code"] if ending is Ending.EXIT else None,
            wall_seconds=wall_seconds,
            output=output.text,
            output_bytes=output.total_bytes,
            output_truncated=output.is_truncated,
        )

    def kill_all(self) -> None:
        """Kill every process but the holder; return when all are gone and reaped."""
        with self._holder_calls("ending what is left"):
            self._channel.call({"kind": "kill"}, deadline=time.monotonic() + _KILL_SECONDS)

    @contextlib.contextmanager
    def _holder_calls(self, doing: str) -> Any:
        try:
            yield
        except HolderGoneError as error:
            message = f"local backend, {doing}: the sandbox is gone"
            raise SandboxError(Cause.SANDBOX_LOST, message) from error
        except TimeoutError as error:
            message = f"local backend, {doing}: processes outlive SIGKILL in the sandbox"
            raise SandboxError(Cause.ENGINE, message) from error

    # --- files -----------------------------------------------------------------------------------

    def put(self, source: Path, target: str) -> None:
        """Copy a host file, or a folder's contents, to a path made anew (`base.Sandbox.put`)."""
        self._lay(Placement(target, source))

    def place(self, placements: Sequence[Placement]) -> None:
        """Lay files and folders in (`base.Sandbox.place`); the holder does it, as root."""
        for item in placements:
            layer = self._opened.layer
            own = None if layer is None else layer / item.target.strip("/")
            if item.over == "image" and own is not None and own.is_dir():
                self._lay(Placement(item.target, own))
                self._lay(replace(item, over="all"))
            else:
                self._lay(item)

    def _lay(self, item: Placement) -> None:
        check_target(item)
        request = {
            "kind": "lay",
            "path": str(PurePosixPath(item.target)),
            "renews": item.over != "all",
            "mode": item.mode,
            "is_public": item.is_public,
            "script": item.script,
        }
        doing = f"copying to {item.target}"
        if item.source is None:
            self._copy(request, [], doing)
            return
        opened = os.open(item.source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._copy(request, [opened], doing)
        finally:
            os.close(opened)

    def get(self, source: str, target: Path) -> None:
        """Copy a file or folder out to the host path `target`; links and devices are left out."""
        target.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        request = {
            "kind": "get",
            "path": source,
            "name": target.name,
            "max_bytes": base.MAX_COPY_BYTES,
            "max_depth": base.MAX_COPY_DEPTH,
        }
        try:
            self._copy(request, [opened], f"copying {source}")
        finally:
            os.close(opened)

    def _copy(self, request: Mapping[str, Any], descriptors: list[int], doing: str) -> None:
        with self._holder_calls(doing):
            answer = self._channel.call(request, descriptors=descriptors)
        if "error" not in answer:
            return
        if isinstance(answer["errno"], int) and request["kind"] == "get":
            kind = OSError(answer["errno"], "").__class__
            if kind in (FileNotFoundError, NotADirectoryError):
                raise FileNotFoundError(f"{request['path']}: no such file in the sandbox")
            if answer["errno"] == errno.EFBIG:
                raise ValueError(base.TOO_LARGE)
        raise SandboxError(Cause.ENGINE, f"local backend, {doing}: {answer['error']}")

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """Return a file's last `max_bytes` bytes, or None if there is no such regular file."""
        with self._holder_calls(f"reading {path}"):
            answer = self._channel.call({"kind": "read", "path": path, "max_bytes": max_bytes})
        if "error" in answer:
            raise SandboxError(Cause.ENGINE, f"local backend, reading {path}: {answer['error']}")
        content: bytes | None = answer["result"]
        return content

    def read_folder(self, path: str, max_bytes: Mapping[str, int]) -> Mapping[str, bytes]:
        """Return the ends of files in a folder (`base.Sandbox.read_folder`)."""
        ends = {
            name: self.read(f"{path}/{name}", max_bytes=most) for name, most in max_bytes.items()
        }
        return {name: end for name, end in ends.items() if end is not None}

    @property
    def workdir(self) -> str:
        """The folder in which steps run that name none."""
        return self._opened.workdir

    def program(self, name: str) -> str | None:
        """Return where the host, which is the image, has a program in its system folders."""
        return shutil.which(name, path=os.pathsep.join(SYSTEM_FOLDERS))

    def altered(self, paths: Sequence[str]) -> str | None:
        """Return the first path that does not show the host's own file any more."""
        for path in paths:
            with self._holder_calls(f"looking at {path}"):
                answer = self._channel.call({"kind": "look", "path": path})
            if answer.get("result") != look(path):
                return path
        return None

    def seen(self) -> Seen:
        """Say what a step sees of the host."""
        pid = self._channel.holder_pid
        cpus = len(os.sched_getaffinity(0 if pid is None else pid))
        memory = psutil.virtual_memory()
        return Seen(cpus, memory.total, memory.available)

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents, as an engine does with a container's working directory."""
        with self._holder_calls(f"making {path}"):
            answer = self._channel.call({"kind": "folder", "path": path})
        if "error" in answer:
            raise SandboxError(
                Cause.SANDBOX_START, f"local backend, making {path}: {answer['error']}"
            )

    # --- facts -----------------------------------------------------------------------------------

    def counters(self, *, expect_kill: bool = False) -> Counters:
        """Read the kernel's counters, or what the watchdog knows (`base.Sandbox.counters`)."""
        deadline = time.monotonic() + (_KILL_COUNT_SECONDS if expect_kill else 0.0)
        while True:
            reading = self._read_counters()
            kills = reading.oom_kills
            if kills is None or kills > self._last_kills or time.monotonic() >= deadline:
                self._last_kills = kills or self._last_kills
                return reading
            time.sleep(_KILL_COUNT_PAUSE_SECONDS)

    def _read_counters(self) -> Counters:
        limit = self._opened.memory_limit_bytes
        if self._opened.cgroup is not None:
            # The kernel cuts a limit down to whole pages.
            pages = None if limit is None else limit // _PAGE_BYTES * _PAGE_BYTES
            return read_counters(self._opened.cgroup.paths, pages)
        if self._watchdog is None:
            return Counters(limit_reached=False)
        kills = self._watchdog.kills
        return Counters(oom_kills=kills, limit_reached=True if kills else None, source=WATCHDOG)

    def effective_limits(self) -> EffectiveLimits:
        """Read the limits back from the kernel; those of the watchdog are as it was told."""
        if self._opened.cgroup is not None:
            paths = self._opened.cgroup.paths
            limits = read_limits(paths)
            ceiling = {"memory_ceiling_bytes": ceiling_of(paths)}
            return EffectiveLimits({**limits.values, **ceiling}, limits.source)
        values = {"memory_limit_bytes": self._opened.memory_limit_bytes, "cpu_limit_cores": None}
        return EffectiveLimits(values, WATCHDOG)

    def held_disk_bytes(self) -> int | None:
        """Return how much its files take of the disk (`base.HoldsDisk`)."""
        try:
            return _blocks_below(self._opened.folder)
        except (OSError, RecursionError):  # unreadable, or nested too deep: not to be trusted
            return None

    def is_alive(self) -> bool:
        """Whether the holder runs."""
        return not self._is_closed and self._channel.is_alive()

    # --- end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove processes, cgroups, mounts and files; safe to call twice, never raises."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                if self._watchdog is not None:
                    self._watchdog.stop()
                discard(self._channel, self._opened.cgroup, self._opened.folder)
            except OSError as error:
                _log.warning("local backend: %s is not wholly removed: %s", self, error)

    def __repr__(self) -> str:
        return f"<LocalSandbox {self._opened.folder.name}>"


def _blocks_below(folder: Path) -> int:
    def give_up(error: OSError) -> None:
        raise error

    found: dict[int, int] = {}  # by inode: a file of several names is one
    for place, folders, files in os.walk(folder, onerror=give_up):
        for name in (*folders, *files):
            status = Path(place, name).lstat()
            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def discard(channel: Channel, cgroup: TrialCgroup | None, folder: Path | None) -> None:
    """Remove all that a sandbox consists of: processes (and so mounts), cgroups, files."""
    try:
        channel.end()
    finally:
        if cgroup is not None:
            cgroup.remove()
        if folder is not None:
            remove_tree(folder)
