"""One builder at a time, across processes, without leaving a file behind."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold this user's lock of that name on this host; a process that dies gives it back.

    The file is removed while the lock is held, so one that waited for it may have locked a file
    that no longer has the name: it then takes the new one.
    """
    path = Path(tempfile.gettempdir()) / f"infranoise-{os.getuid()}-{name}.lock"
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_current(descriptor, path):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        named = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), named)
