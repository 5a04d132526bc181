"""A build context: which files belong to it, and a digest of them."""

import hashlib
import os
import stat
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from docker.utils.build import create_archive, exclude_paths

from pytest_infranoise.errors import UsageError

DOCKERFILE = "Dockerfile"


def context_files(context: Path) -> list[str]:
    """Return the relative paths of a build context, sorted, without what .dockerignore excludes.

    The Dockerfile and the .dockerignore itself always belong to it.
    """
    ignore = context / ".dockerignore"
    try:
        lines = ignore.read_text(encoding="utf-8-sig").splitlines() if ignore.is_file() else []
    except (OSError, ValueError) as error:
        raise UsageError(f"{ignore}: cannot be read: {error}") from None
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return sorted(exclude_paths(str(context), patterns, dockerfile=DOCKERFILE))


def context_digest(context: Path) -> str:
    """Return the SHA-256, in hex, of the names, modes and contents of a build context.

    Owners and times do not count: the builder takes no notice of them.
    """
    total = hashlib.sha256()
    try:
        for name in context_files(context):
            for part in _describe(context / name, name):
                total.update(len(part).to_bytes(8, "big"))
                total.update(part)
    except OSError as error:
        raise UsageError(f"{error.filename or context}: cannot be read: {error}") from None
    return total.hexdigest()


def _describe(path: Path, name: str) -> tuple[bytes, ...]:
    """Return what counts of one entry: kind, name, mode, content."""
    found = path.lstat()
    mode = oct(stat.S_IMODE(found.st_mode)).encode()
    label = os.fsencode(name)
    if stat.S_ISLNK(found.st_mode):
        return (b"link", label, os.fsencode(path.readlink()))
    if stat.S_ISDIR(found.st_mode):
        return (b"folder", label, mode)
    if stat.S_ISREG(found.st_mode):
        with path.open("rb") as file:
            return (b"file", label, mode, hashlib.file_digest(file, "sha256").digest())
    return (b"special", label, mode)


def pack_context(context: Path) -> IO[bytes]:
    """Return the build context as an archive in a file without a name."""
    archive: IO[bytes] = TemporaryFile(prefix="infranoise-")  # noqa: SIM115 - the caller closes it
    create_archive(str(context), files=context_files(context), fileobj=archive)
    archive.seek(0)
    return archive
