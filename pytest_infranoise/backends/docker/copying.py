"""Files into and out of a container, as the tar archives that the engine speaks."""

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from pytest_infranoise.backends import base

_IN_MEMORY_BYTES = 4 * 1024 * 1024


@contextmanager
def temporary_archive() -> Iterator[IO[bytes]]:
    """A file without a name: in memory while it is small, on disk beyond."""
    with SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, prefix="infranoise-") as file:
        yield file


def pack(source: Path, name: str, archive: IO[bytes]) -> None:
    """Write a host file under `name`, or a folder's contents, as an archive owned by root.

    Symlinks inside a folder stay symlinks; sockets are left out. The archive is rewound.
    """
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        if source.is_dir():
            for entry in sorted(source.iterdir()):
                tar.add(entry, arcname=entry.name, filter=_owned_by_root)
        else:
            tar.dereference = True  # a link to the file means the file
            tar.add(source, arcname=name, filter=_owned_by_root)
    archive.seek(0)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


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


def spool(chunks: Iterator[Any], archive: IO[bytes]) -> None:
    """Write the chunks of a download to a file and rewind it.

    Raises:
        ValueError: there is more than may be copied out of a sandbox.
    """
    left = base.MAX_COPY_BYTES
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise ValueError(base.TOO_LARGE)
        archive.write(chunk)
    archive.seek(0)
