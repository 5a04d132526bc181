"""Writing `[metadata.infranoise]` into a `task.toml`, everything else as it was.

The editor of TOML (tomlkit) is an extra: only `infranoise calibrate --write` needs it.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.tasks.place import Place, display_path
from pytest_infranoise.units import GIB, KIB, MIB

Value = str | float
"""A size as it stands in a task file, or cores."""


@dataclass(frozen=True, slots=True)
class BandEdit:
    """A task file and what it is to hold; `changes` are key, value before (None: absent), after."""

    path: Path
    text: str
    changes: tuple[tuple[str, Any, Value], ...]


def size_text(size_bytes: int) -> str:
    """Return a size as a task file spells it.

    >>> size_text(96 * 1024**2), size_text(1536 * 1024**2), size_text(2 * 1024**3)
    ('96M', '1536M', '2G')
    """
    for factor, suffix in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor}{suffix}"
    return str(size_bytes)


def read_changes(path: Path, band: Mapping[str, Value]) -> tuple[tuple[str, Any, Value], ...]:
    """Return which keys of the band a task file does not hold as they are to be.

    Raises:
        UsageError: the file cannot be read.
    """
    return _changes(_parsed(_read(path), path), band)


def edit_band(path: Path, band: Mapping[str, Value]) -> BandEdit:
    """Return a task file's new text: the band's keys set, all else untouched.

    Raises:
        UsageError: tomlkit is not installed, the file cannot be read, or it is written in a way
            that this cannot change without touching more.
    """
    text = _read(path)
    document = _parsed(text, path)
    changes = _changes(document, band)
    if not changes:
        return BandEdit(path, text, ())
    new = _edited(text, band, path)
    wanted = deepcopy(document)
    wanted.setdefault("metadata", {}).setdefault("infranoise", {}).update(band)
    try:
        is_right = tomllib.loads(new) == wanted
    except ValueError:
        is_right = False
    if not is_right:
        keys = ", ".join(f"{key} = {value!r}" for key, value in band.items())
        where = Place(display_path(path)).key("metadata", "infranoise")
        raise UsageError(f"{where}: cannot be changed as this file is written; set {keys} by hand")
    return BandEdit(path, new, changes)


def write_edit(edit: BandEdit) -> None:
    """Replace the task file in one step; its mode stays, a symlink to it too.

    Raises:
        InfranoiseError: it cannot be written.
    """
    target = edit.path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with draft.open("xb") as file:
            os.fchmod(file.fileno(), target.stat().st_mode & 0o7777)
            file.write(edit.text.encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise InfranoiseError(f"{edit.path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            draft.unlink()


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{display_path(path)}: cannot be read: {error}") from None


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{display_path(path)}: not valid TOML: {error}") from None


def _changes(
    document: Mapping[str, Any], band: Mapping[str, Value]
) -> tuple[tuple[str, Any, Value], ...]:
    metadata = document.get("metadata")
    own = metadata.get("infranoise") if isinstance(metadata, Mapping) else None
    before = own if isinstance(own, Mapping) else {}
    return tuple(
        (key, before.get(key), value) for key, value in band.items() if before.get(key) != value
    )


def _edited(text: str, band: Mapping[str, Value], path: Path) -> str:
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ImportError:
        raise UsageError(
            "--write: task files are edited with tomlkit, which is not installed; "
            "pip install 'tomlkit>=0.12'"
        ) from None
    is_new = False
    try:
        document: Any = tomlkit.parse(text)
        if "metadata" not in document:
            document["metadata"] = tomlkit.table(is_super_table=True)
        metadata = document["metadata"]
        if "infranoise" not in metadata:
            is_inline = isinstance(metadata, tomlkit.items.InlineTable)
            metadata["infranoise"] = tomlkit.inline_table() if is_inline else tomlkit.table()
            is_new = not is_inline
        for key, value in band.items():
            metadata["infranoise"][key] = value
        new: str = tomlkit.dumps(document)
    except (TOMLKitError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{display_path(path)}: cannot be edited: {error}") from None
    if is_new:  # a blank line between the new table and what follows it
        last = re.escape(f"{list(band)[-1]} = ")
        new = re.sub(
            rf"^(\[metadata\.infranoise\]\n(?:.+\n)*?{last}.*\n)(?=\S)", r"\1\n", new, flags=re.M
        )
    return _with_line_ends_of(text, new)


def _with_line_ends_of(old: str, new: str) -> str:
    """Return new text with the old one's line ends, where those were of one kind."""
    if "\r\n" in old and re.search(r"(?<!\r)\n", old) is None:
        return re.sub(r"(?<!\r)\n", "\r\n", new)
    return new
