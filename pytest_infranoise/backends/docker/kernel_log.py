"""Kills of a container's processes in the kernel's log, which outlives the container's cgroup.

Each kill is one record since Linux 5.0: which process of which cgroup, and at whose limit.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KMSG = "/dev/kmsg"

# What the victim calls itself stands in between, so the numbers count from the end.
_KILL = re.compile(
    r"oom-kill:constraint=.*?,task_memcg=(?P<group>[^,]*),task=.*,pid=(?P<pid>\d+),uid="
)
_LIMIT = re.compile(r"oom-kill:constraint=.*?,oom_memcg=(?P<limit>[^,]*),task_memcg=")
_RECORD_BYTES = 8192
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True, slots=True)
class LoggedKill:
    """A kill: the victim's process id as the whole machine counts (`counts_as_the_machine`).

    `by_own_limit` is false where the limit was that of a cgroup above, or the host's memory.
    """

    pid: int
    by_own_limit: bool


def logged_kills(container_id: str) -> list[LoggedKill]:
    """Return the kills in a container, the oldest first; none where the log cannot be read."""
    return [kill for line in _lines() if (kill := parse_kill(line, container_id))]


def counts_as_the_machine() -> bool:
    """Whether process ids here are those of the kernel's log: not so inside containers."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def parse_kill(line: str, container_id: str) -> LoggedKill | None:
    """Read a record of the log; None if it is no kill in this container."""
    found = _KILL.search(line)
    if found is None or container_id not in found["group"]:
        return None
    limit = _LIMIT.search(line)
    own = limit is not None and container_id in limit["limit"]
    return LoggedKill(int(found["pid"]), own)


def _lines() -> Iterator[str]:
    try:
        log = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        while True:
            try:
                yield os.read(log, _RECORD_BYTES).decode("utf-8", "replace")
            except BrokenPipeError:  # the oldest records were overwritten meanwhile
                continue
            except OSError:
                return
    finally:
        os.close(log)
