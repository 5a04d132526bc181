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
from collections.abc import Iterable, Mapping, Sequence
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


def rescue_records(records: Sequence[Mapping[str, Any]], study: str, *, journal: Path) -> str:
    """Write records that a study's disk refused to the temporary folder; say in a line where.

    `journal` is the file that they belong to.
    """
    path = Path(tempfile.gettempdir()) / f"infranoise-{study}-{JOURNAL_NAME}"
    try:
        path.write_bytes(b"".join(encode_line(record) for record in records))
    except OSError as error:
        return f"{len(records)} record(s) are LOST: {path}: cannot be written: {error.strerror}"
    return f"{len(records)} record(s) did not fit into the study; append {path} to {journal}"


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
            self._size, self.torn = repair(self._file, self.path)
        except BlockingIOError:
            os.close(self._file)
            raise UsageError(
                f"{self.path}: another process is writing it; wait for it or use another folder"
            ) from None
        except OSError as error:
            os.close(self._file)
            raise UsageError(f"{self.path}: cannot be repaired: {error.strerror}") from error

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
            try:
                self._write(self._waiting[0])
            except OSError as error:
                raise JournalError(
                    f"{self.path}: cannot be written: {error.strerror}; {len(self._waiting)} "
                    "record(s) are kept in memory until it can"
                ) from error
            del self._waiting[0]

    def _write(self, line: bytes) -> None:
        """Write a line whole or not at all."""
        written = 0
        try:
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._size + written)
            os.fdatasync(self._file)
        except OSError:
            if written:
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
