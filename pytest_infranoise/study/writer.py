"""A study while it is written: its folder, manifest and journal."""

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.study.files import sync_folder, write_json
from pytest_infranoise.study.journal import (
    JOURNAL_NAME,
    Journal,
    JournalError,
    encode_line,
    is_record,
    rescue_file,
)
from pytest_infranoise.study.looks import LOOKS_NAME
from pytest_infranoise.study.manifest import finish_manifest
from pytest_infranoise.study.redact import Redactor

MANIFEST_NAME = "manifest.json"
STUDIES_FOLDER = ".infranoise"
OWN_NAMES = (MANIFEST_NAME, JOURNAL_NAME, LOOKS_NAME)
"""What a study is made of, by the names in its folder."""


def new_study_id() -> str:
    """Return an id that sorts by time and is safe as a folder name and a container label."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{secrets.token_hex(2)}"


def create_study(
    manifest: Mapping[str, Any],
    *,
    root: Path | None = None,
    directory: Path | None = None,
    redactor: Redactor | None = None,
) -> "StudyWriter":
    """Return the writer of a new study; nothing is created until `start` or the first record.

    The study lies in `directory`, or in `.infranoise/<study id>/` below `root` (default: the
    current folder), which is kept out of version control. `redactor` removes secrets from the free
    text of records.

    Raises:
        UsageError: `directory` already holds records, is no folder, or cannot be written.
    """
    if directory is None:
        folder = (root or Path.cwd()) / STUDIES_FOLDER / str(manifest["study"])
    else:
        folder = directory.absolute()
    _require_free(folder)
    _require_writable(folder)
    return StudyWriter(folder, manifest, redactor or Redactor(), is_private=directory is None)


def resume_study(
    folder: Path, manifest: Mapping[str, Any], *, redactor: Redactor | None = None
) -> "StudyWriter":
    """Return the writer of a study that goes on; `manifest` is the one that it has from now on.

    Nothing is touched until `start`, which takes the journal's lock and moves a torn line aside.
    """
    return StudyWriter(folder, manifest, redactor or Redactor(), is_new=False)


def _require_free(folder: Path) -> None:
    journal = folder / JOURNAL_NAME
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--infra-study: {folder} is not a folder; name another one")
        if journal.exists() and journal.stat().st_size > 0:
            raise UsageError(
                f"--infra-study: {folder} already holds the records of a study; name another folder"
            )
        if folder.exists() and (others := _other_files(folder)):
            raise UsageError(
                f"--infra-study: {folder} holds {others[0]} and no study; name a folder that is "
                "empty or does not exist yet"
            )
    except OSError as error:
        raise UsageError(f"--infra-study: {folder}: {error.strerror}") from error


def _require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, with a file that never gets a name."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise UsageError(_not_writable(folder, error)) from error


def _not_writable(folder: Path, error: OSError) -> str:
    return f"--infra-study: {folder} cannot be written: {error.strerror}"


def _other_files(folder: Path) -> list[str]:
    """Return what a folder without records holds beside a study's own files."""
    if (folder / MANIFEST_NAME).exists() or (folder / JOURNAL_NAME).exists():
        return []  # begun, and ended before its first record
    return sorted(item.name for item in folder.iterdir() if not item.name.startswith("."))


def refuse_own_file(path: Path, *, where: str) -> None:
    """Refuse to replace one of the files that a study is made of.

    Args:
        path: what is to be written.
        where: the option that named it.

    Raises:
        UsageError: it lies in a study's folder, under the name of one of the study's own files.
    """
    if path.name not in OWN_NAMES:
        return
    if any((path.parent / name).exists() for name in (MANIFEST_NAME, JOURNAL_NAME)):
        raise UsageError(
            f"{where}: {path} is a file of the study in {path.parent}; choose another name"
        )


@dataclass
class StudyWriter:
    """Writes one study. One process writes; `directory` is the study's own folder.

    `is_private` says that the folder above is ours and is to be ignored by version control,
    `is_new` that the folder must hold no records yet.
    """

    directory: Path
    manifest: Mapping[str, Any]
    redactor: Redactor
    is_private: bool = False
    is_new: bool = True
    _journal: Journal | None = field(init=False, default=None)
    _is_first: bool = field(init=False, default=False)
    _made_folder: bool = field(init=False, default=False)

    @property
    def is_started(self) -> bool:
        """Whether the folder has been made."""
        return self._journal is not None

    @property
    def torn(self) -> Path | None:
        """Where the half-written last line of an earlier session was moved, if there was one."""
        return None if self._journal is None else self._journal.torn

    @property
    def unwritten(self) -> list[dict[str, Any]]:
        """Records that the disk has not taken yet."""
        return [] if self._journal is None else self._journal.unwritten

    @property
    def is_held(self) -> bool:
        """Whether this process is the one that writes the study."""
        return self._journal is not None and self._journal.is_held

    def start(self) -> None:
        """Make the folder, write the manifest and open the journal; safe to call twice.

        Raises:
            UsageError: the folder cannot be written, or has received records meanwhile.
        """
        if self._journal is not None:
            return
        if self.is_new:
            _require_free(self.directory)
        try:
            self._made_folder = not self.directory.exists()
            self.directory.mkdir(parents=True, exist_ok=True)
            if self.is_private:
                _ignore_in_git(self.directory.parent)
            self._journal = Journal(self.directory)
            self._is_first = self.is_new
            write_json(self.directory / MANIFEST_NAME, self.manifest)
            sync_folder(self.directory.parent)
        except OSError as error:
            self.close()
            self._journal = None
            raise UsageError(_not_writable(self.directory, error)) from error

    def note(self, **facts: Any) -> None:
        """Add facts to the manifest that were not known when the study began.

        Raises:
            InfranoiseError: the manifest cannot be written.
        """
        self.manifest = {**self.manifest, **facts}
        if self._journal is not None:
            self._write_manifest()

    def _write_manifest(self) -> None:
        """Replace the manifest, unless the folder is no longer the study's."""
        path = self.directory / MANIFEST_NAME
        if self._journal is not None:
            self._journal.check()
        try:
            write_json(path, self.manifest)
        except OSError as error:
            raise InfranoiseError(f"{path}: cannot be written: {error.strerror}") from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one trial's record (`TrialRecord.to_json()`) to the disk.

        Raises:
            JournalError: the disk refuses it; it is kept and tried again with the next one.
        """
        self.start()
        assert self._journal is not None
        self._journal.append(self.redactor.record(record))

    def finish(self, **results: Any) -> None:
        """Write what is left and the manifest's end; without a start, do nothing.

        `results` are added to the manifest. The journal is closed where all is well; else `rescue`
        may save what is in it.

        Raises:
            InfranoiseError: records or the manifest could not be written.
        """
        if self._journal is None:
            return
        self.manifest = finish_manifest(
            self.manifest, self.directory, **self.redactor.value(results)
        )
        self._journal.retry()
        self._write_manifest()
        self.close()

    def rescue(self, records: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
        """Save what the study's folder does not hold, and close.

        `records` are those of this session. Where the journal is no longer in its place, all that
        it held is saved, and the manifest with it.

        Returns:
            how many records were saved or lost, and in a line where they are.
        """
        assert self._journal is not None
        try:
            self._journal.check()
        except JournalError as error:
            return self._rescue_all(records, str(error))
        finally:
            lines = [encode_line(record) for record in self._journal.unwritten]
            self.close()
        if not lines:
            return 0, ""
        path = rescue_file(str(self.manifest["study"]), JOURNAL_NAME)
        fix = f"append {path} to {self.directory / JOURNAL_NAME}"
        words = f"{len(lines)} record(s) did not fit into the study; {fix}"
        return len(lines), _save(path, b"".join(lines), len(lines)) or words

    def _rescue_all(self, records: Sequence[Mapping[str, Any]], reason: str) -> tuple[int, str]:
        assert self._journal is not None
        before = self._journal.written().splitlines(keepends=True)
        own = (encode_line(self.redactor.record(record)) for record in records)
        lines = list(dict.fromkeys([*filter(is_record, before), *own]))
        study = str(self.manifest["study"])
        path, manifest = (rescue_file(study, name) for name in (JOURNAL_NAME, MANIFEST_NAME))
        problem = _save(path, b"".join(lines), len(lines))
        with suppress(OSError):
            write_json(manifest, self.manifest)
        where = (
            f"all {len(lines)} record(s) of the study are in {path}, its manifest is in {manifest};"
            f" put them back as {JOURNAL_NAME} and {MANIFEST_NAME} in {self.directory}"
        )
        return len(lines), f"{reason}; {problem or where}"

    def discard(self) -> None:
        """Close and remove a study that this writer began and that holds no record.

        Only who holds the journal's lock may: a start that was refused touches nothing, since the
        folder is somebody else's. The lock is held until all is gone. What was there before the
        study began stays: an earlier session's study, a folder of the user's.
        """
        if self._journal is not None and self._journal.is_held and self._is_first:
            self._remove_own()
        self.close()

    def _remove_own(self) -> None:
        journal = self.directory / JOURNAL_NAME
        with suppress(OSError):  # not empty: somebody else keeps something here
            if journal.stat().st_size == 0:
                (self.directory / MANIFEST_NAME).unlink(missing_ok=True)
                journal.unlink()  # last: who finds none may begin a study here
                if self._made_folder:
                    self.directory.rmdir()

    def close(self) -> None:
        """Close the journal as it is."""
        if self._journal is not None:
            self._journal.close()


def _save(path: Path, text: bytes, count: int) -> str:
    """Write rescued records; return why that failed, empty where it did not."""
    try:
        path.write_bytes(text)
    except OSError as error:
        return f"{count} record(s) are LOST: {path}: cannot be written: {error.strerror}"
    return ""


def _ignore_in_git(folder: Path) -> None:
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "ascii")
