"""A digest of everything in a task folder that can change an outcome."""

import hashlib
import os
import stat
from pathlib import Path

from pytest_infranoise.errors import UsageError

SKIPPED_NAMES = frozenset({".git", "__pycache__"})
"""Written by tools that only look at the folder; nothing in a sandbox depends on them."""


def directory_digest(directory: Path) -> str:
    """Return the SHA-256, in hex, of names, contents, execute bits and links below `directory`.

    Where the folder stands, times, owners and the other mode bits do not count. A symlink counts
    by its target's text.

    Raises:
        UsageError: something in it cannot be read.
    """
    total = hashlib.sha256()
    try:
        _add_directory(total, os.fsencode(directory), b"")
    except OSError as error:
        raise UsageError(f"{error.filename or directory}: cannot be read: {error}") from None
    return total.hexdigest()


def _add_directory(total: "hashlib._Hash", path: bytes, prefix: bytes) -> None:
    with os.scandir(path) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if os.fsdecode(entry.name) in SKIPPED_NAMES:
            continue
        name = prefix + entry.name
        if entry.is_symlink():
            target = os.readlink(entry.path)  # noqa: PTH115 - a name may be any bytes
            _add(total, b"link", name, target)
        elif entry.is_dir():
            _add(total, b"folder", name, b"")
            _add_directory(total, entry.path, name + b"/")
        elif entry.is_file():
            _add_file(total, entry, name)
        else:
            _add(total, b"special", name, b"")


def _add_file(total: "hashlib._Hash", entry: "os.DirEntry[bytes]", name: bytes) -> None:
    executable = entry.stat().st_mode & stat.S_IXUSR
    with open(entry.path, "rb") as file:  # noqa: PTH123 - a name may be any bytes
        content = hashlib.file_digest(file, "sha256").digest()
    _add(total, b"program" if executable else b"file", name, content)


def _add(total: "hashlib._Hash", kind: bytes, name: bytes, content: bytes) -> None:
    """Add one entry; every field has its length in front, so no two trees read alike."""
    for field in (kind, name, content):
        total.update(len(field).to_bytes(8, "big"))
        total.update(field)
