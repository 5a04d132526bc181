"""Where a user's ledgers lie: a folder that nobody else can use."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from pytest_infranoise.errors import UsageError


def default_directory() -> Path:
    """Return the folder of this user's ledgers: below $XDG_RUNTIME_DIR, else the temporary folder.

    A runtime folder that belongs to somebody else (as after `sudo -E`) is not used.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parent = Path(tempfile.gettempdir())
    if runtime:
        with suppress(OSError):
            if Path(runtime).is_dir() and Path(runtime).stat().st_uid == os.getuid():
                parent = Path(runtime)
    return parent / f"infranoise-{os.getuid()}"


def make_private(directory: Path) -> None:
    """Create the folder for this user alone, or refuse one that others can write to."""
    directory.mkdir(mode=0o700, exist_ok=True, parents=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UsageError(
            f"admission: {directory} is not a folder that only you can use; remove it, or set "
            "XDG_RUNTIME_DIR to a private folder"
        )
