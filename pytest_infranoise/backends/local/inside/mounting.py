"""Carrying out a plan of mounts, as `view.py` wrote it."""

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from typing import Any

from .syscalls import MS_PRIVATE, MS_REC, enter_root, make_tree_read_only, mount


def _node(path: str, major: int, minor: int) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.chmod(path, 0o666)


def _file(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))


def _folder(path: str, mode: int) -> None:
    os.mkdir(path)
    os.chmod(path, mode)


_ACTIONS: dict[str, Callable[..., None]] = {
    "mount": mount,
    "node": _node,
    "file": _file,
    "folder": _folder,
    "link": os.symlink,
    "read_only_tree": make_tree_read_only,
}


def build(operations: Sequence[Sequence[Any]], root: str) -> None:
    """Carry out a plan in a mount namespace of our own, then make `root` the root.

    An operation is a name and its arguments. One whose name starts with `?` may fail: what it
    hides or shows does not exist on every host.

    Raises:
        OSError: the first operation that must not fail and did.
    """
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    os.umask(0)
    for name, *arguments in operations:
        action = _ACTIONS[name.lstrip("?")]
        if name.startswith("?"):
            with contextlib.suppress(OSError):
                action(*arguments)
        else:
            action(*arguments)
    enter_root(root)
