"""Copying between open host folders and the view; runs in a child of the holder.

The child's root is the view, so whatever links a task has left lead nowhere else. The host's side
is reached only through the descriptor that the owner passed.
"""

import contextlib
import os
import stat

_BLOCK_BYTES = 1 << 20
_NO_FOLLOW = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def put(source: int, target: str) -> None:
    """Make `target` anew from an open file or folder; missing parents are created."""
    _remove(target)
    os.makedirs(os.path.dirname(target) or "/", exist_ok=True)
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.mkdir(target)
        folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        _copy_folder(source, folder, keep_links=True, mode_mask=0o7777)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        _copy_file(source, os.open(target, flags, 0o600), 0o7777)


def get(source: str, target: int, name: str) -> None:
    """Copy the file or folder at `source` to `name` in an open host folder.

    Links, devices and pipes are left out; set-id bits are dropped.
    """
    opened = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(opened).st_mode
    if stat.S_ISDIR(mode):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=target)
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=target)
        _copy_folder(opened, folder, keep_links=False, mode_mask=0o777)
    elif stat.S_ISREG(mode):
        _replace_file(opened, target, name, 0o777)
    else:
        raise FileNotFoundError(2, "neither a file nor a folder", source)


def read_end(path: str, max_bytes: int) -> bytes | None:
    """Return a regular file's last bytes, or None; a pipe or device there never blocks."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        return None
    os.lseek(opened, max(0, status.st_size - max_bytes), os.SEEK_SET)
    parts, left = [], max_bytes
    while left > 0 and (part := os.read(opened, min(left, _BLOCK_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _copy_folder(source: int, target: int, *, keep_links: bool, mode_mask: int) -> None:
    """Copy the contents of one open folder into another, and its mode; closes the target."""
    with os.scandir(source) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = entry.name
        if entry.is_symlink():
            if keep_links:
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=target)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            inner = os.open(name, flags, dir_fd=source)
            made = os.open(name, flags, dir_fd=target)
            _copy_folder(inner, made, keep_links=keep_links, mode_mask=mode_mask)
            os.close(inner)
        else:
            _copy_entry(name, source, target, mode_mask)
    _copy_status(source, target, mode_mask, floor=0 if keep_links else 0o700)
    os.close(target)


def _copy_entry(name: str, source: int, target: int, mode_mask: int) -> None:
    if not stat.S_ISREG(os.lstat(name, dir_fd=source).st_mode):
        return  # opening a socket fails and a pipe has no content
    opened = os.open(name, os.O_RDONLY | _NO_FOLLOW, dir_fd=source)
    _replace_file(opened, target, name, mode_mask)
    os.close(opened)


def _replace_file(opened: int, target: int, name: str, mode_mask: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    _copy_file(opened, os.open(name, flags, 0o600, dir_fd=target), mode_mask)


def _copy_file(source: int, target: int, mode_mask: int) -> None:
    offset = 0
    while sent := os.sendfile(target, source, offset, _BLOCK_BYTES):
        offset += sent
    _copy_status(source, target, mode_mask)
    os.close(target)


def _copy_status(source: int, target: int, mode_mask: int, floor: int = 0) -> None:
    status = os.fstat(source)
    os.fchmod(target, stat.S_IMODE(status.st_mode) & mode_mask | floor)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _remove(path: str) -> None:
    """Remove whatever is at `path`, never what a link there points to."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    # Nobody else may change the tree between look and removal with any gain: this is the view.
    for folder, folders, names in os.walk(path, topdown=False):
        for name in names:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            inner = os.path.join(folder, name)
            if os.path.islink(inner):
                os.unlink(inner)
            else:
                os.rmdir(inner)
    os.rmdir(path)
