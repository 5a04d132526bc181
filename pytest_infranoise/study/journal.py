"""The journal of a study: one JSON line per trial, written the moment the trial ends.

One process writes. A line is one write, flushed to the disk before `append` returns, so that a
machine that dies loses nothing that was reported; a line that a dying machine did write half is
moved aside when the journal is opened again.
"""

import fcntl
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_infranoise.closing import Closing
from pytest_infranoise.errors import InfranoiseError, UsageError

JOURNAL_NAME = "trials.jsonl"
_CHUNK_BYTES = 1 << 16
_CHUNK_LINES = 4096


class JournalError(InfranoiseError):
    """A record could not be written (a full disk, say); it waits in memory, see `Journal`."""


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as one line of ASCII JSON; NaN and infinities become null (unknown)."""
    try:
        text = json.dumps(record, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_without_nan(record), allow_nan=False, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value


def rescue_file(study: str, name: str) -> Path:
    """Return where a file of a study goes that its own folder does not take."""
    return Path(tempfile.gettempdir()) / f"infranoise-{study}-{name}"


@dataclass
class Journal(Closing):
    """Appends records to `trials.jsonl` in `directory`; the folder must exist.

    `torn` is where a half-written last line of an earlier run was moved, if there was one.
    A record that cannot be written waits in memory for the next `append` or `retry`.

    Raises:
        UsageError: another process is writing this journal, or it cannot be opened.
    """

    directory: Path
    torn: Path | None = field(init=False, default=None)
    _waiting: list[bytes] = field(init=False, default_factory=list)
    _file: int = field(init=False, default=-1)
    _size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_in_place():  # its owner removed it before we had the lock
                raise BlockingIOError
            self._size, self.torn = repair(self._file, self.path)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"{self.path}: another process is writing it; wait for it or use another folder"
            ) from None
        except OSError as error:
            self.close()
            raise UsageError(f"{self.path}: cannot be repaired: {error.strerror}") from error

    @property
    def is_held(self) -> bool:
        """Whether this process holds the journal's lock, and the file is where it was."""
        return self._file >= 0 and self._is_in_place()

    def _is_in_place(self) -> bool:
        """Whether the open file is the one that a reader finds."""
        try:
            return os.path.samestat(os.fstat(self._file), self.path.stat())
        except OSError:
            return False

    def check(self) -> None:
        """Require that what is written is what a reader finds.

        Somebody may have removed, moved, replaced or cut the file, or put a file system above it:
        writing on would succeed, and nobody would ever see the records.

        Raises:
            JournalError: they are not.
        """
        if problem := self._displacement():
            raise JournalError(f"{self.path}: {problem} while the study was running")

    def _displacement(self) -> str | None:
        try:
            found = self.path.stat()
        except OSError as error:
            return f"was removed or moved ({error.strerror})"
        if not os.path.samestat(os.fstat(self._file), found):
            return "was replaced by another file"
        if found.st_size != self._size:
            return f"was changed by somebody else ({self._size} bytes before, {found.st_size} now)"
        return None

    def written(self) -> bytes:
        """Return the whole lines that the open file still holds, wherever it is now."""
        with suppress(OSError):
            text = os.pread(self._file, self._size, 0) if self._file >= 0 else b""
            return text[: text.rfind(b"\n") + 1]
        return b""

    @property
    def path(self) -> Path:
        """The file."""
        return self.directory / JOURNAL_NAME

    @property
    def unwritten(self) -> list[dict[str, Any]]:
        """The records that could not be written yet, oldest first."""
        return [json.loads(line) for line in self._waiting]

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record, after any that failed before, and wait until the disk has it.

        Raises:
            JournalError: it could not be written; this and the earlier ones are in `unwritten`, and
                the next `append` or `retry` tries again.
        """
        self._waiting.append(encode_line(record))
        self.retry()

    def extend(self, lines: Iterable[bytes]) -> None:
        """Write lines of `encode_line`, all or none, and wait for the disk once.

        Raises:
            JournalError: they could not be written; the file is as it was.
        """
        before, remaining = self._size, iter(lines)
        try:
            while chunk := b"".join(islice(remaining, _CHUNK_LINES)):
                self._put(chunk)
            os.fdatasync(self._file)
        except BaseException as error:
            os.ftruncate(self._file, before)
            self._size = before
            if isinstance(error, OSError):
                raise JournalError(f"{self.path}: cannot be written: {error.strerror}") from error
            raise

    def _put(self, text: bytes) -> None:
        written = 0
        while written < len(text):
            written += os.pwrite(self._file, text[written:], self._size + written)
        self._size += len(text)

    def retry(self) -> None:
        """Write the records that could not be written yet.

        Raises:
            JournalError: the reason is still there.
        """
        while self._waiting:
            self._check_waiting()
            try:
                self._write(self._waiting[0])
            except OSError as error:
                raise JournalError(
                    f"{self.path}: cannot be written: {error.strerror}; {len(self._waiting)} "
                    "record(s) are kept in memory until it can"
                ) from error
            del self._waiting[0]

    def _check_waiting(self) -> None:
        try:
            self.check()
        except JournalError as error:
            raise JournalError(
                f"{error}; {len(self._waiting)} record(s) are kept in memory until it is back"
            ) from None

    def _write(self, line: bytes) -> None:
        """Write a line whole or not at all, also where a signal ends the session meanwhile."""
        written = 0
        try:
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._size + written)
            os.fdatasync(self._file)
        except BaseException:
            if os.fstat(self._file).st_size > self._size:
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)

    def close(self) -> None:
        """Close the file; safe to call twice. What is still in `unwritten` stays there."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def repair(file: int, path: Path) -> tuple[int, Path | None]:
    """Make a journal end with a whole line; returns its size and where a torn line was moved.

    A last line that only lacks its line feed is whole and gets one.
    """
    size = os.fstat(file).st_size
    end = _end_of_lines(file, size)
    if end == size:
        return size, None
    tail = os.pread(file, size - end, end)
    if is_record(tail):
        os.pwrite(file, b"\n", size)
        return size + 1, None
    aside = _free_name(path)
    aside.write_bytes(tail)
    os.ftruncate(file, end)
    return end, aside


def is_record(line: bytes) -> bool:
    """Whether a line is one whole JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _end_of_lines(file: int, size: int) -> int:
    """Return the offset just behind the last line feed."""
    position = size
    while position > 0:
        start = max(0, position - _CHUNK_BYTES)
        found = os.pread(file, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.torn-{number}")).exists():
        number += 1
    return aside
