"""Which CPUs a whole-core allocation is bound to: the next ones in turn, over all processes.

A number in a file of this user, one per engine, says where the next trial's CPUs begin; whoever
takes some moves it on. So trials that run at the same time are spread over the engine's CPUs, and
share one only where more are given out than there are. Trials of other users are not seen.
"""

import fcntl
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from pytest_infranoise.admission.folder import default_directory, make_private

_LARGEST_TURN = 1 << 62


def take_cpus(
    cpus: Sequence[int], count: int, engine_id: str, *, directory: Path | None = None
) -> tuple[int, ...] | None:
    """Return `count` of the engine's CPUs in ascending order; None if it has no more than that."""
    if not 0 < count < len(cpus):
        return None
    turn = _next_turn(count, engine_id, default_directory() if directory is None else directory)
    return tuple(sorted(cpus[(turn + offset) % len(cpus)] for offset in range(count)))


def _next_turn(count: int, engine_id: str, directory: Path) -> int:
    """Return the number in the engine's file, and move it on by `count`."""
    make_private(directory)
    path = directory / ("cpus-" + sha256(engine_id.encode()).hexdigest()[:16])
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        text = os.read(handle, 32).decode("ascii", "replace").strip()
        turn = int(text) if text.isdecimal() and int(text) < _LARGEST_TURN else 0
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(turn + count).encode("ascii"), 0)
        return turn
    finally:
        os.close(handle)
