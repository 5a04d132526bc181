"""Ending what runs in a container, whatever a step has made of the programs in it.

On this host the kernel's list of the container's processes is read and each is killed from outside.
Elsewhere, and without the right to do so, three means follow one another, and after each the engine
says what still runs (`top`): the container's own shell, the image's own shell in a container of its
own that shares only the list of processes, and the end of the container.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docker import DockerClient

from pytest_infranoise.backends.base import SHELL
from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS

KILL_COMMAND = (SHELL, "-c", "kill -9 -1")
"""Kills everything but PID 1 and itself, all at once."""

HOST_SECONDS = 30.0
_GONE_SECONDS = 5.0
_PAUSE_SECONDS = 0.005
_DEAD = ("Z", "X")


def kill_from_host(folder: Path, holder: int) -> bool:
    """Kill all processes of a cgroup and those below it but the holder; whether that is done.

    The holder's shell makes itself a child to wait for whenever that is killed: it may stay.
    """
    until = time.monotonic() + HOST_SECONDS
    stays = _Companions(holder)
    has_killed = False
    while time.monotonic() < until:
        # A child that is there from the start could be an agent's process in disguise.
        left = [pid for pid in _processes(folder) if not (has_killed and stays.has(pid))]
        left = [pid for pid in left if pid != holder]
        if not left:
            return True
        if not all(_kill(pid) for pid in left):
            return False
        has_killed = True
        time.sleep(_PAUSE_SECONDS)
    return False


def _processes(folder: Path) -> Iterator[int]:
    for place, _, _ in os.walk(folder):
        try:
            text = (Path(place) / "cgroup.procs").read_text(encoding="ascii")
        except OSError:  # the cgroup is gone
            continue
        yield from (int(word) for word in text.split())


def _kill(pid: int) -> bool:
    """Kill a process; False where that is not allowed or it is not visible here."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


class _Companions:
    """Tells the holder's own child from any other process: the same program, told the same."""

    def __init__(self, holder: int) -> None:
        self._holder = holder
        self._itself = self._look(holder)

    def has(self, pid: int) -> bool:
        return self._itself is not None and self._look(pid) == self._itself and self._is_child(pid)

    def _is_child(self, pid: int) -> bool:
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return int(status.rpartition(")")[2].split()[1]) == self._holder

    @staticmethod
    def _look(pid: int) -> tuple[int, int, bytes] | None:
        try:
            program = Path(f"/proc/{pid}/exe").stat()
            return program.st_dev, program.st_ino, Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return None


def kill_by_engine(
    client: DockerClient, container: str, means: tuple[Callable[[], object], ...]
) -> bool:
    """Try one means after the other until the engine says that only the holder runs."""
    for attempt in means:
        attempt()
        if _is_clean(client, container):
            return True
    return False


def _is_clean(client: DockerClient, container: str) -> bool:
    """Whether the engine soon lists nothing but the holder, its own child and the dead."""
    until = time.monotonic() + _GONE_SECONDS
    while True:
        try:
            if not _strangers(client, container):
                return True
        except TRANSPORT_ERRORS:  # the engine's host has no ps that knows these columns
            return False
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE_SECONDS)


def _strangers(client: DockerClient, container: str) -> list[list[str]]:
    api: Any = client.api
    holder = str(api.inspect_container(container)["State"]["Pid"])
    rows = api.top(container, ps_args="-eo pid,ppid,stat,args")["Processes"] or []
    own = next((row[3] for row in rows if row[0] == holder), None)
    return [
        row
        for row in rows
        if row[0] != holder
        and not row[2].startswith(_DEAD)
        and not (row[1] == holder and row[3] == own)
    ]
