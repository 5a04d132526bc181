"""Prepared layers: what a Dockerfile's WORKDIR and COPY add to the host's file system.

A layer is a folder tree that lies above the host's own in the trial's view. It is made once per
content, under the lock of the run folder, and named by its digest.
"""

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pytest_infranoise.backends.dockerfile import Copy, Dockerfile
from pytest_infranoise.errors import UsageError

FRESH_FOLDERS = {
    "/app": 0o755,
    "/tests": 0o755,
    "/solution": 0o755,
    "/logs": 0o755,
    "/logs/agent": 0o777,
    "/logs/verifier": 0o777,
    "/logs/artifacts": 0o777,
    "/tmp": 0o1777,
    "/run": 0o755,
    "/run/lock": 0o1777,
    "/dev": 0o755,
    "/proc": 0o555,
    "/sys": 0o555,
}
"""Folders of a trial that show nothing of the host, with their modes; parents come first."""

_BLOCK_BYTES = 1 << 20


def layer_items(dockerfile: Dockerfile) -> list[tuple[Path, PurePosixPath, Copy]]:
    """Resolve every COPY to (host path, path in the sandbox) of files, links and folders.

    Raises:
        UsageError: a source is not in the build context; the message names file and line.
    """
    context = dockerfile.path.parent
    ignored = Ignored.read(context)
    items: list[tuple[Path, PurePosixPath, Copy]] = []
    for copy in dockerfile.copies:
        for pattern in copy.sources:
            found = _resolve(dockerfile.path, context, pattern, copy)
            for source in found:
                items += _expand(source, copy, context, ignored, len(found) > 1)
    return items


def _resolve(path: Path, context: Path, pattern: str, copy: Copy) -> list[Path]:
    parts = [part for part in PurePosixPath(pattern).parts if part not in ("/", ".")]
    if ".." in parts:
        raise UsageError(f"{path}:{copy.line}: {pattern} lies outside the build context")
    if not parts:
        return [context]
    if any(character in pattern for character in "*?["):
        found = sorted(context.glob("/".join(parts)))
    else:
        found = [context.joinpath(*parts)]
    inside = context.resolve()
    for source in found:
        if not source.exists() and not source.is_symlink():
            found = []
        elif not source.resolve().is_relative_to(inside):
            raise UsageError(f"{path}:{copy.line}: {pattern} leads out of the build context")
    if not found:
        raise UsageError(f"{path}:{copy.line}: {pattern} is not in the build context {context}")
    return found


def _expand(
    source: Path, copy: Copy, context: Path, ignored: "Ignored", is_one_of_many: bool
) -> Iterator[tuple[Path, PurePosixPath, Copy]]:
    if not source.is_dir():
        if not ignored.matches(source.relative_to(context)):
            into = copy.into_folder or is_one_of_many
            yield source, copy.target / source.name if into else copy.target, copy
        return
    yield source, copy.target, copy
    for folder, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(folders + names):
            inner = Path(folder, name)
            if not ignored.matches(inner.relative_to(context)):
                yield inner, copy.target / inner.relative_to(source).as_posix(), copy


class Ignored:
    """The patterns of a context's .dockerignore; the last that matches decides."""

    def __init__(self, patterns: list[tuple[bool, re.Pattern[str]]]) -> None:
        self._patterns = patterns

    @classmethod
    def read(cls, context: Path) -> "Ignored":
        """Read the context's .dockerignore, if there is one."""
        try:
            lines = (context / ".dockerignore").read_text(encoding="utf-8-sig").splitlines()
        except OSError:
            return cls([])
        patterns = []
        for line in lines:
            text = line.strip()
            if text and not text.startswith("#"):
                keeps = text.startswith("!")
                patterns.append((not keeps, _pattern(text.lstrip("!").strip().strip("/"))))
        return cls(patterns)

    def matches(self, path: Path) -> bool:
        """Whether a path relative to the context is left out."""
        names = [path.as_posix(), *(parent.as_posix() for parent in path.parents)]
        is_ignored = False
        for leaves_out, pattern in self._patterns:
            if any(pattern.fullmatch(name) for name in names):
                is_ignored = leaves_out
        return is_ignored


def _pattern(text: str) -> re.Pattern[str]:
    translated = re.escape(text)
    for glob, expression in (
        (r"\*\*/", "(?:.*/)?"),
        (r"/\*\*", "/.*"),
        (r"\*\*", ".*"),
        (r"\*", "[^/]*"),
        (r"\?", "[^/]"),
    ):
        translated = translated.replace(glob, expression)
    return re.compile(translated)


def layer_digest(
    dockerfile: Dockerfile, items: list[tuple[Path, PurePosixPath, Copy]]
) -> str | None:
    """Return the digest of all that the Dockerfile adds; None if it adds nothing."""
    parts = [f"environment {key}={value}" for key, value in dockerfile.environment.items()]
    parts += [f"folder {folder}" for folder in dockerfile.folders]
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape"))
    for source, target, copy in items:
        status = source.lstat()
        head = f"\0{target}\0{status.st_mode if copy.mode is None else copy.mode}\0{copy.owner}\0"
        digest.update(head.encode(errors="surrogateescape"))
        if stat.S_ISLNK(status.st_mode):
            digest.update(os.fsencode(source.readlink()))
        elif stat.S_ISREG(status.st_mode):
            with source.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
    return f"sha256:{digest.hexdigest()}" if parts or items else None


def build_layer(
    layer: Path, dockerfile: Dockerfile, items: list[tuple[Path, PurePosixPath, Copy]]
) -> None:
    """Fill an empty folder with the Dockerfile's folders and files."""
    for folder in dockerfile.folders:
        make_parents(layer, folder / "x")
    for source, target, copy in items:
        place = make_parents(layer, target)
        mode = source.lstat().st_mode
        if stat.S_ISLNK(mode):
            place.unlink(missing_ok=True)
            place.symlink_to(source.readlink())
        elif stat.S_ISDIR(mode):
            place.mkdir(exist_ok=True)
            place.chmod(stat.S_IMODE(mode))
        elif stat.S_ISREG(mode):
            place.unlink(missing_ok=True)
            shutil.copyfile(source, place)
            place.chmod(stat.S_IMODE(mode) if copy.mode is None else copy.mode)
        else:
            continue
        set_owner(place, *(copy.owner or (0, 0)))


def make_parents(layer: Path, path: PurePosixPath) -> Path:
    """Make the folders above `path` in a layer, and return the place of `path` itself."""
    place = layer
    host = Path("/")
    for part in follow_host_links(Path(path)).parts[1:-1]:
        place, host = place / part, host / part
        if not place.is_dir():
            place.unlink(missing_ok=True)
            place.mkdir()
            copy_status(host, place)
    return place / path.name


def follow_host_links(path: Path) -> Path:
    """Return a path of the sandbox with the host's links above it followed.

    A folder in the place of a link would hide what that leads to (/bin, say).
    """
    if f"/{path.parts[1]}" in FRESH_FOLDERS:
        return path
    return Path(os.path.realpath(path.parent), path.name)


def copy_status(host: Path, place: Path) -> None:
    """Give a folder of ours the mode and owner of the host's, where there is one."""
    try:
        status = host.lstat()
    except OSError:
        status = None
    if status is None or not stat.S_ISDIR(status.st_mode):
        place.chmod(0o755)
        return
    set_owner(place, status.st_uid, status.st_gid)
    place.chmod(stat.S_IMODE(status.st_mode))


def set_owner(place: Path, uid: int, gid: int) -> None:
    """Give something of ours an owner, where we may: root may, but not in a user namespace."""
    with contextlib.suppress(OSError):
        os.chown(place, uid, gid, follow_symlinks=False)
