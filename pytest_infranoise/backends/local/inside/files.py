"""Copying between open host folders and the view; runs in a child of the holder.

The child's root is the view, and paths are followed through no link of /proc, so whatever links a
task has left lead nowhere else. The host's side is reached only through the descriptor that the
owner passed.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from .syscalls import open_plain

_BLOCK_BYTES = 1 << 20
_NOTHING_THERE = (errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.ENAMETOOLONG)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NO_FOLLOW = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def lay(source: int | None, target: str, wish: Mapping[str, Any]) -> None:
    """Lay an open file or folder, or None for an empty folder, at `target`; parents are made.

    `wish` says whether it `renews` what is there, the target's `mode` (None for the source's),
    whether it `is_public`, and which `script` in it everybody can run then.
    """
    parent, name = make_folder(os.path.dirname(target)), os.path.basename(target)
    if source is not None and not stat.S_ISDIR(os.fstat(source).st_mode):
        remove(name, parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        _copy_file(source, os.open(name, flags, 0o600, dir_fd=parent), 0o7777)
    else:
        if wish["renews"]:
            remove(name, parent)
        folder = _real_folder(name, parent) if name else os.dup(parent)
        own_mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if source is not None:
            _copy_folder(source, os.dup(folder), keep_links=True, mode_mask=0o7777)
            if wish["is_public"]:
                _publish(source, folder, wish["script"])
        if not name:  # the root itself stays as it was
            os.fchmod(folder, own_mode)
        os.close(folder)
    if name and (wish["mode"] is not None or source is None):
        os.chmod(name, wish["mode"] or 0o755, dir_fd=parent)


def _real_folder(name: str, parent: int) -> int:
    """Open a folder in an open one; what is there and is none is replaced."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
            os.unlink(name, dir_fd=parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)


def _publish(source: int, target: int, script: str | None) -> None:
    """Let everybody read what was copied from one open folder to another, and run its script."""
    os.fchmod(target, os.fstat(target).st_mode & 0o7777 | 0o555)
    for name in os.listdir(source):
        mode = os.lstat(name, dir_fd=target).st_mode
        if stat.S_ISDIR(mode):
            flags = _FOLDER | os.O_NOFOLLOW
            inner, made = (os.open(name, flags, dir_fd=folder) for folder in (source, target))
            _publish(inner, made, None)
            os.close(inner)
            os.close(made)
        elif stat.S_ISREG(mode):
            floor = 0o555 if name == script else 0o444
            os.chmod(name, stat.S_IMODE(mode) | floor, dir_fd=target)


def look(path: str) -> tuple[int, int, int] | None:
    """Return what tells a file from one that replaced it; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return stat.S_IFMT(found.st_mode), found.st_size, found.st_mtime_ns


def make_folder(path: str) -> int:
    """Open a folder; it and its parents are made where they are missing."""
    with contextlib.suppress(FileNotFoundError):
        return open_plain(path, _FOLDER)
    parent = make_folder(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.basename(path), dir_fd=parent)
    os.close(parent)
    return open_plain(path, _FOLDER)


class Room:
    """How many bytes may still be copied, and how deep folders may be nested; None for any."""

    def __init__(self, left: int | None = None, levels: int | None = None) -> None:
        self.left = left
        self.levels = levels

    @contextlib.contextmanager
    def level(self) -> Iterator[None]:
        """Go one level down.

        Raises:
            OSError: with EFBIG, it is too deep.
        """
        if self.levels is None:
            yield
            return
        if self.levels == 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        self.levels -= 1
        yield
        self.levels += 1

    def take(self, size: int) -> None:
        """Note that so many bytes were copied.

        Raises:
            OSError: with EFBIG, it is too much.
        """
        if self.left is not None:
            self.left -= size
            if self.left < 0:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


_ANY = Room()


def get(source: str, target: int, name: str, room: Room) -> None:
    """Copy the file or folder at `source` to `name` in an open host folder.

    Links, devices and pipes are left out, `source` itself included; set-id bits are dropped. What
    needs more than `room` is not copied, which an `OSError` with EFBIG says.
    """
    try:
        opened = open_plain(source, os.O_RDONLY | _NO_FOLLOW)
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            raise FileNotFoundError(2, "neither a file nor a folder", source) from None
        raise
    mode = os.fstat(opened).st_mode
    if stat.S_ISDIR(mode):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=target)
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=target)
        _copy_folder(opened, folder, keep_links=False, mode_mask=0o777, room=room)
    elif stat.S_ISREG(mode):
        _replace_file(opened, target, name, 0o777, room)
    else:
        raise FileNotFoundError(2, "neither a file nor a folder", source)


def read_end(path: str, max_bytes: int) -> bytes | None:
    """Return a regular file's last bytes, or None; a pipe or device there never blocks."""
    try:
        opened = open_plain(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            return None
        os.lseek(opened, max(0, status.st_size - max_bytes), os.SEEK_SET)
        return _read_on(opened, max_bytes)
    except OSError:  # a link to a file of /proc that cannot be read, say
        return None


def _read_on(opened: int, max_bytes: int) -> bytes:
    parts, left = [], max_bytes
    while left > 0 and (part := os.read(opened, min(left, _BLOCK_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _copy_folder(
    source: int, target: int, *, keep_links: bool, mode_mask: int, room: Room = _ANY
) -> None:
    """Copy the contents of one open folder into another, and its mode; closes the target."""
    with os.scandir(source) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = entry.name
        if entry.is_symlink():
            if keep_links:
                remove(name, target)
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif entry.is_dir(follow_symlinks=False):
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=source)
            made = _real_folder(name, target)
            with room.level():
                _copy_folder(inner, made, keep_links=keep_links, mode_mask=mode_mask, room=room)
            os.close(inner)
        else:
            if keep_links:
                remove(name, target)
            _copy_entry(name, source, target, mode_mask, room)
    _copy_status(source, target, mode_mask, floor=0 if keep_links else 0o700)
    os.close(target)


def _copy_entry(name: str, source: int, target: int, mode_mask: int, room: Room) -> None:
    if not stat.S_ISREG(os.lstat(name, dir_fd=source).st_mode):
        return  # opening a socket fails and a pipe has no content
    opened = os.open(name, os.O_RDONLY | _NO_FOLLOW, dir_fd=source)
    _replace_file(opened, target, name, mode_mask, room)
    os.close(opened)


def _replace_file(opened: int, target: int, name: str, mode_mask: int, room: Room) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    _copy_file(opened, os.open(name, flags, 0o600, dir_fd=target), mode_mask, room)


def _copy_file(source: int, target: int, mode_mask: int, room: Room = _ANY) -> None:
    offset = 0
    while sent := os.sendfile(target, source, offset, _BLOCK_BYTES):
        offset += sent
        room.take(sent)
    _copy_status(source, target, mode_mask)
    os.close(target)


def _copy_status(source: int, target: int, mode_mask: int, floor: int = 0) -> None:
    status = os.fstat(source)
    os.fchmod(target, stat.S_IMODE(status.st_mode) & mode_mask | floor)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def remove(name: str, parent: int) -> None:
    """Remove whatever is at `name` in an open folder, never what a link there points to.

    Folders inside are moved up before their own is removed, so no tree is too deep.

    Raises:
        OSError: something cannot be removed.
    """
    try:
        status = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    top = _open_to_empty(name, parent)
    numbers = count()
    while names := os.listdir(top):
        for inner in names:
            _remove_entry(inner, top, top, numbers)
    os.close(top)
    os.rmdir(name, dir_fd=parent)


def _open_to_empty(name: str, parent: int) -> int:
    os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)


def _remove_entry(name: str, folder: int, top: int, numbers: Iterator[int]) -> None:
    """Remove an entry of the top folder; one of a folder below is moved up if it is a folder."""
    if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        os.unlink(name, dir_fd=folder)
    elif folder != top:
        os.chmod(name, 0o700, dir_fd=folder)  # its entry for the folder above is to change
        os.rename(name, _free_name(top, numbers), src_dir_fd=folder, dst_dir_fd=top)
    else:
        inner = _open_to_empty(name, top)
        for entry in os.listdir(inner):
            _remove_entry(entry, inner, top, numbers)
        os.close(inner)
        os.rmdir(name, dir_fd=top)


def _free_name(folder: int, numbers: Iterator[int]) -> str:
    for number in numbers:
        name = f".infranoise-{number}"
        try:
            os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            return name
    raise AssertionError("numbers do not end")
