"""How a container ended: its first process as this host sees it, and the engine's events."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker import DockerClient

from pytest_infranoise.backends.docker.failures import engine_calls

# The engine hears of a kill and of the first process's end apart, some milliseconds later each.
_TOGETHER_SECONDS = 0.5
_NEWS_SECONDS = 1.0
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


def died_by_kill(client: DockerClient, container_id: str) -> bool | None:
    """Whether a container that has ended did so with a kill by the kernel, not some time after one.

    None if the engine does not remember its end any more. The engine's clock must be this host's.

    Raises:
        SandboxError: the engine does not answer.
    """
    until = time.monotonic() + _NEWS_SECONDS
    while True:
        times = _event_times(client, container_id)
        if "die" in times:
            ended, killed = times["die"], times.get("oom")
            return killed is not None and ended - killed < _TOGETHER_SECONDS * 1e9
        if time.monotonic() >= until:
            return None
        time.sleep(0.05)


def _event_times(client: DockerClient, container_id: str) -> dict[str, int]:
    """The last time, in nanoseconds, of each kind of event."""
    filters: dict[str, Any] = {"container": container_id, "event": ["oom", "die"]}
    api: Any = client.api
    with engine_calls("reading the engine's events"):
        events = api.events(since=0, until=f"{time.time():.9f}", filters=filters, decode=True)
        return {str(event["status"]): int(event["timeNano"]) for event in events}
