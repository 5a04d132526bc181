"""A memory limit without a cgroup: look often, kill the largest process when the sum is too high.

It sees what processes hold when it looks, so a spike between two looks passes, and page cache is
not counted. Files in the sandbox's /dev/shm are.
"""

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

_LOOK_SECONDS = 0.02


class Watchdog:
    """Watches the descendants of a sandbox's holder in a thread of its own, until `stop`."""

    def __init__(self, holder_pid: int, limit_bytes: int, shared_memory: int) -> None:
        self.kills = 0
        self._holder = psutil.Process(holder_pid)
        self._holder_command = _command(self._holder)
        self._limit_bytes = limit_bytes
        self._shared_memory = shared_memory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="infranoise-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watching; returns when it has ended."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = _LOOK_SECONDS
        while not self._stop.wait(pause):
            begun = time.monotonic()
            with contextlib.suppress(psutil.NoSuchProcess):
                self.look()
            # On a host with very many processes a look is slow: leave the trial most of the CPU.
            pause = max(_LOOK_SECONDS, 2 * (time.monotonic() - begun))

    def look(self) -> None:
        """Compare once, and kill the largest process if the limit is passed."""
        processes = self._holder.children(recursive=True)
        # Resident sets count shared and file pages in full, so they are an upper bound that is
        # cheap to read; the exact shares are read only when it is passed.
        files = self._shared_files_bytes()
        if files + sum(map(_resident_bytes, processes)) <= self._limit_bytes:
            return
        # The holder's own forks carry files in and out; they are no part of the trial.
        trial = [process for process in processes if _command(process) != self._holder_command]
        sizes = [(_charged_bytes(process), process) for process in trial]
        private = sum(size.private for size, _ in sizes)
        shared = max(files, sum(size.shared for size, _ in sizes))
        # One that is ending holds nothing any more, and a signal to it is no kill.
        victims = [(sum(size), process) for size, process in sizes if sum(size) > 0]
        if victims and private + shared > self._limit_bytes:
            self._kill_largest(victims)

    def _shared_files_bytes(self) -> int:
        status = os.fstatvfs(self._shared_memory)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def _kill_largest(self, sizes: Sequence[tuple[int, psutil.Process]]) -> None:
        _, largest = max(sizes, key=lambda item: item[0])
        with contextlib.suppress(psutil.NoSuchProcess):
            largest.kill()
            self.kills += 1
            with contextlib.suppress(psutil.TimeoutExpired):
                largest.wait(1.0)  # so that its memory is not counted against another one


class _Charged(NamedTuple):
    """What a cgroup could not reclaim: a process's own pages, and its part of shared memory."""

    private: int
    shared: int


def _command(process: psutil.Process) -> bytes:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _charged_bytes(process: psutil.Process) -> _Charged:
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:  # another user's, or gone
        return _Charged(_resident_bytes(process), 0)
    values = {name: value.split() for name, _, value in map(_field, text.splitlines())}
    if "Pss_Anon" not in values:  # kernel < 5.3
        return _Charged(_resident_bytes(process), 0)
    private, shared = (int(values[name][0]) * 1024 for name in ("Pss_Anon", "Pss_Shmem"))
    return _Charged(private, shared)


def _field(line: str) -> tuple[str, str, str]:
    return line.partition(":")
