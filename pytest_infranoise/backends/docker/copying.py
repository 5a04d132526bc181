"""Files into and out of a container, as the tar archives that the engine speaks."""

import io
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from pytest_infranoise.backends import base
from pytest_infranoise.backends.base import Placement

_IN_MEMORY_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 1 << 16
MAX_SEARCHED_BYTES = 256 * 1024 * 1024
"""How much of a folder is read in search of some files of it."""


@contextmanager
def temporary_archive() -> Iterator[IO[bytes]]:
    """A file without a name: in memory while it is small, on disk beyond."""
    with SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, prefix="infranoise-") as file:
        yield file


class Packing:
    """An archive in the making that is unpacked at the root of a container.

    The engine replaces what is not a folder by the entry of the same name, so an entry that is a
    file first and a folder then wipes whatever was there, and no link is ever followed.
    """

    def __init__(self, archive: IO[bytes]) -> None:
        self._tar = tarfile.TarFile(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT)
        self._archive = archive

    def finish(self) -> None:
        """Close and rewind the archive."""
        self._tar.close()
        self._archive.seek(0)

    def add(self, placement: Placement, below: bytes | None = None, *, wipes: bool) -> None:
        """Add a placement over the archive `below`, whose root is the target.

        Symlinks inside a folder stay symlinks; sockets are left out.
        """
        name = placement.target.strip("/")
        if placement.source is not None and not placement.source.is_dir():
            self._add_entry(placement, placement.source.resolve(), name, "")
            return
        if wipes:
            self._tar.addfile(tarfile.TarInfo(name))
        if below is not None:
            self._add_below(below, name)
        if placement.source is None:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, placement.mode or 0o755
            self._tar.addfile(folder)
            return
        self._add_folder(placement, placement.source, name, "")

    def _add_folder(self, placement: Placement, folder: Path, name: str, below: str) -> None:
        self._add_entry(placement, folder, name, below)
        for entry in sorted(folder.iterdir()):
            path = f"{below}/{entry.name}".lstrip("/")
            inner = f"{name}/{entry.name}".lstrip("/")
            if entry.is_dir() and not entry.is_symlink():
                self._add_folder(placement, entry, inner, path)
            else:
                self._add_entry(placement, entry, inner, path)

    def _add_entry(self, placement: Placement, path: Path, name: str, below: str) -> None:
        if not name:  # the root itself stays as it is
            return
        member = self._tar.gettarinfo(path, arcname=name)
        if member is None:  # a socket
            return
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        if not member.issym():
            member.mode = placement.mode_of(below, member.mode, is_folder=member.isdir())
        if not member.isreg():
            self._tar.addfile(member)
            return
        with path.open("rb") as content:
            self._tar.addfile(member, content)

    def _add_below(self, archive: bytes, name: str) -> None:
        """Add what an image has at a path, as it is there."""

        def moved(path: str) -> str:
            return "/".join((name, *PurePosixPath(path).parts[1:]))

        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                member.name = moved(member.name)
                member.pax_headers = {}
                if member.islnk():
                    member.linkname = moved(member.linkname)
                self._tar.addfile(member, content)


def unpack(archive: IO[bytes], target: Path) -> None:
    """Write an archive's only root (a file or a folder) to the host path `target`.

    The archive comes from where an agent was at work: names that leave the target are refused, and
    only folders and regular files are written, never links or devices.

    Raises:
        ValueError: a name in the archive leads out of the target, or it is nested too deep.
    """
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        for member in tar:
            inside = _below_root(member.name)
            path = target.joinpath(*inside.parts)
            if len(inside.parts) - (not member.isdir()) > base.MAX_COPY_DEPTH:
                raise ValueError(base.TOO_LARGE)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.isreg() or member.islnk():
                _write(tar, member, path)


def _below_root(name: str) -> PurePosixPath:
    """Return the path of a member relative to the archive's root entry."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"archive member {name!r} leads out of its folder")
    return PurePosixPath(*path.parts[1:])


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    try:
        content = tar.extractfile(member)
    except KeyError:  # a hard link to a file outside the archive
        return
    if content is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)
    path.chmod((member.mode & 0o777) | 0o600)


def spool(chunks: Iterator[Any], archive: IO[bytes], most: int | None = None) -> None:
    """Write the chunks of a download to a file and rewind it.

    Raises:
        ValueError: there is more than may be copied out of a sandbox.
    """
    left = base.MAX_COPY_BYTES if most is None else most
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise ValueError(base.TOO_LARGE)
        archive.write(chunk)
    archive.seek(0)


def ends_of_files(archive: IO[bytes], max_bytes: Mapping[str, int]) -> dict[str, bytes]:
    """Return the last bytes of the regular files in an archive's root folder, by name."""
    found = {}
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            if len(parts) != 2 or parts[1] not in max_bytes or not member.isreg():
                continue
            found[parts[1]] = _end(tar, member, max_bytes[parts[1]])
    return found


def end_of_file(archive: IO[bytes], max_bytes: int) -> bytes | None:
    """Return the last bytes of an archive's only file."""
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        member = tar.next()
        if member is None or not member.isreg():
            return None
        return _end(tar, member, max_bytes)


def _end(tar: tarfile.TarFile, member: tarfile.TarInfo, max_bytes: int) -> bytes:
    content = tar.extractfile(member)
    assert content is not None
    with content:
        content.seek(max(0, member.size - max_bytes), os.SEEK_SET)
        return content.read(max_bytes)
