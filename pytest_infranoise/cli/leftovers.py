"""What dead runs left behind, and how it is told from what living runs are using.

A sandbox carries its owner, `host:pid`. It is left over if that process is gone, or if the process
of that number was started long after the sandbox was made, so that the number belongs to somebody
else by now. An owner on another host cannot be judged from here, so its sandboxes stay; and nothing
of a study is touched while any owner of one of its sandboxes lives.
"""

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path

from pytest_infranoise.admission import default_directory
from pytest_infranoise.admission.entry import Entry, birth_of

CLOCK_SLACK_SECONDS = 60.0
"""How far an engine's clock may differ from ours."""


class Life(Enum):
    """Whether the owner of something lives."""

    DEAD = "dead"
    ALIVE = "alive"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Found:
    """Something of ours on this host; `reason` says in words why it is left over or not.

    `study` is None for what belongs to no single one.
    """

    kind: str
    name: str
    study: str | None
    life: Life
    reason: str
    remove: Callable[[], None] = field(repr=False)


def life_of_owner(owner: str, made_at: float | None) -> tuple[Life, str]:
    """Judge the owner of a sandbox that was made at `made_at` (seconds since 1970)."""
    host, _, number = owner.rpartition(":")
    if not (number.isascii() and number.isdigit()):
        return Life.UNKNOWN, f"its owner {owner!r} is not a process"
    if host not in ("", socket.gethostname()):
        return Life.UNKNOWN, f"its owner runs on another host ({host})"
    started = _started_at(int(number))
    if started is None:
        return Life.DEAD, f"its owner, process {number}, is gone"
    if made_at is not None and started > made_at + CLOCK_SLACK_SECONDS:
        return Life.DEAD, f"its owner is gone; process {number} is a later one"
    return Life.ALIVE, f"its owner, process {number}, is running"


def _started_at(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970; None if there is none."""
    ticks = birth_of(pid)
    return None if ticks is None else _booted_at() + ticks / os.sysconf("SC_CLK_TCK")


@cache
def _booted_at() -> float:
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0


def removable(found: Sequence[Found], study: str | None) -> tuple[list[Found], list[Found]]:
    """Return what may go and what stays, of one study or of all."""
    living = {item.study for item in found if item.life is Life.ALIVE}
    going: list[Found] = []
    staying: list[Found] = []
    for item in found:
        if study is not None and item.study != study:
            continue
        is_left = item.life is Life.DEAD and (item.study is None or item.study not in living)
        (going if is_left else staying).append(item)
    return going, staying


def someone_reserves(directory: Path | None = None) -> bool:
    """Whether a living process holds, or waits for, a share of any engine on this host."""
    for path in (directory or default_directory()).glob("*/*"):
        entry = Entry.parse(path.name)
        if entry is not None and birth_of(entry.pid) == entry.born:
            return True
    return False


def flag_folders(is_busy: bool, directory: Path | None = None) -> list[Found]:
    """Return the folders by which runs told their workers to stop.

    They name a study but no process, so they count as left over only where nobody `is_busy`, and
    when they are not quite new.
    """
    found = []
    for folder in sorted((directory or default_directory()).glob("run-*")):
        age = time.time() - folder.lstat().st_mtime
        is_dead = not is_busy and age > CLOCK_SLACK_SECONDS
        found.append(
            Found(
                "stop flags",
                str(folder),
                folder.name.removeprefix("run-"),
                Life.DEAD if is_dead else Life.UNKNOWN,
                "no run is going on" if is_dead else "a run may be using them",
                _remover(folder),
            )
        )
    return found


def _remover(folder: Path) -> Callable[[], None]:
    def remove() -> None:
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()

    return remove
