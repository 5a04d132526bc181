"""Writing small files so that a reader never sees half of one."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, TypeVar

T = TypeVar("T")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace `path` by this JSON in one step; NaN is refused with a `ValueError`."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


def replace_text(path: Path, write: Callable[[TextIO], T]) -> T:
    """Replace `path` in one step by what `write` writes into an open file; return its result.

    Raises:
        OSError: the place cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="") as target:
            result = write(target)
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink()
    return result


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power failure, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
