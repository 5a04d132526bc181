"""How a container ended: its first process as this host sees it, and the engine's events."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker import DockerClient

from pytest_infranoise.backends.docker.failures import engine_calls

# The engine hears of a kill and of the first process's end apart: some milliseconds later each, a
# second on a machine that is emulated in software. The two so near to each other are taken for one.
_TOGETHER_SECONDS = 2.5
_NEWS_SECONDS = 2.0
_PF_EXITING = 0x4


@dataclass(frozen=True, slots=True)
class Holder:
    """A container's first process: `pid` is the engine's number of it.

    `is_here` says whether that is this host's number too.
    """

    pid: int
    is_here: bool

    def is_ending(self) -> bool:
        """Whether this host already knows of its end; the engine hears of it later."""
        if not self.is_here:
            return False
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True
        flags = status.rpartition(")")[2].split()[6]
        return bool(int(flags) & _PF_EXITING)


@dataclass(frozen=True, slots=True)
class Death:
    """How the engine remembers a container's end; the times are the engine's, in nanoseconds.

    None for a kill means that the engine has told of none, for the end that it remembers none.
    """

    killed_at: int | None
    ended_at: int | None

    @property
    def by_kill(self) -> bool | None:
        """Whether it ended with a kill by the kernel, not some time after one; None is unknown."""
        if self.ended_at is None:
            return None
        if self.killed_at is None:
            return False
        return abs(self.ended_at - self.killed_at) < _TOGETHER_SECONDS * 1e9


def remembered_death(client: DockerClient, container_id: str) -> Death:
    """Return how a container that has ended did so, waiting a little for the engine's news.

    The engine's clock must be this host's.

    Raises:
        SandboxError: the engine does not answer.
    """
    until = time.monotonic() + _NEWS_SECONDS
    while True:
        times = _event_times(client, container_id)
        # On version 2 the news of the kill may come after that of the end.
        if {"die", "oom"} <= times.keys() or time.monotonic() >= until:
            return Death(times.get("oom"), times.get("die"))
        time.sleep(0.05)


def _event_times(client: DockerClient, container_id: str) -> dict[str, int]:
    """The last time, in nanoseconds, of each kind of event."""
    filters: dict[str, Any] = {"container": container_id, "event": ["oom", "die"]}
    api: Any = client.api
    with engine_calls("reading the engine's events"):
        events = api.events(since=0, until=f"{time.time():.9f}", filters=filters, decode=True)
        return {str(event["status"]): int(event["timeNano"]) for event in events}
