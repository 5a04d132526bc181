"""A disk of the host that is full, and whether the trial itself filled it.

A trial controls what it prints, so that its own "No space left on device" proves nothing. What
does is the disk itself, measured when nothing of the trial runs any more, and what the trial's own
files take of it.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_infranoise.backends.base import EngineInfo, HoldsDisk
from pytest_infranoise.units import MIB, format_size

FULL_BYTES = MIB
"""A disk with less room than this for an ordinary user is full."""
NO_SPACE = "no space left on device"

OWN_DEED = "the trial itself filled the host's disk"


@dataclass(frozen=True, slots=True)
class FullDisk:
    """A full disk: how much of it the trial's own files take (None: unknown), and whose deed."""

    held_bytes: int | None
    filled_by: Literal["others", "trial", "unknown"]

    @property
    def words(self) -> str:
        """What a record says of it."""
        held = "an unknown part" if self.held_bytes is None else format_size(self.held_bytes)
        return f"the host's disk was full; the trial's own files took {held} of it"


class HostDisk:
    """The disk on which an engine keeps its sandboxes, from a trial's beginning on."""

    def __init__(self, info: EngineInfo) -> None:
        self._folder = _folder_here(info)
        self._most_free = self._free()

    def look(self, sandboxes: Iterable[object]) -> FullDisk | None:
        """Return that the disk is full, and by whom; None where it is not, or cannot be seen.

        `sandboxes` are those of the trial that still stand. It is the trial's own deed if their
        files take at least half of the most that was found free since it began.
        """
        free, most = self._free(), self._most_free
        if free is None or most is None:
            return None
        most = self._most_free = max(most, free)
        if free >= FULL_BYTES:
            return None
        held = _held(sandboxes)
        if most < FULL_BYTES:
            return FullDisk(held, "others")
        if held is None:
            return FullDisk(None, "unknown")
        return FullDisk(held, "trial" if 2 * held >= most else "others")

    def _free(self) -> int | None:
        if self._folder is None:
            return None
        try:
            status = os.statvfs(self._folder)
        except OSError:
            return None
        if status.f_files and not status.f_favail:
            return 0
        return status.f_bavail * status.f_frsize


def names_full_disk(text: str) -> bool:
    """Whether what a program or an engine printed says that a disk is full."""
    return NO_SPACE in text.lower()


def _folder_here(info: EngineInfo) -> Path | None:
    """Return where an engine on this host keeps its sandboxes; None elsewhere."""
    details = info.details
    if (base := details.get("base")) is not None:
        return Path(base)
    folder, endpoint = details.get("storage_folder"), str(details.get("endpoint"))
    is_here = details.get("kernel_version") == os.uname().release and endpoint.startswith("unix:")
    return Path(folder) if folder and is_here and Path(folder).is_dir() else None


def _held(sandboxes: Iterable[object]) -> int | None:
    total = 0
    for sandbox in sandboxes:
        held = sandbox.held_disk_bytes() if isinstance(sandbox, HoldsDisk) else None
        if held is None:
            return None
        total += held
    return total
