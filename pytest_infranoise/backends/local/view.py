"""What a trial sees: the plan of mounts, and its upper layers with all that differs from the host.

The view of a host folder is an overlay: the trial's own upper layer over the host. The upper layer
is filled before it is mounted: an opaque folder hides all that the host has below it, a whiteout a
file, and neither is a mount that could be undone; removing one from inside leaves a whiteout. (The
kernel takes no second lower layer from below the host's root, so what a Dockerfile adds is copied
up as well.) Paths in a plan are relative to the sandbox's folder.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_infranoise.backends.local.hostmounts import HostMount
from pytest_infranoise.backends.local.inside import syscalls as sc
from pytest_infranoise.backends.local.inside.files import remove
from pytest_infranoise.backends.local.layers import (
    FRESH_FOLDERS,
    copy_status,
    follow_host_links,
    set_owner,
)
from pytest_infranoise.backends.local.masks import Masks
from pytest_infranoise.backends.local.windows import MOUNT_SOURCE, ROOT, Operation

_RESOLVER_FILES = ("/etc/resolv.conf", "/etc/hosts")
_ROOT_PATH = Path("/")
_HOME = "/root"


@dataclass(slots=True)
class FilePlan:
    """The file systems of one trial's view, made in its folder.

    `as_user`: an ordinary user may not lay an overlay over the whole root; the view's root is a
    folder of ours then, with one overlay per folder of the host.
    """

    folder: Path
    masks: Masks
    mounts: Sequence[HostMount]
    as_user: bool
    operations: list[Operation] = field(default_factory=list)
    _uppers: dict[Path, Path] = field(default_factory=dict)

    def make(self, layer: Path | None) -> list[Operation]:
        """Make and fill the upper layers, and return the operations in order.

        `layer` is a tree whose content is laid over the host's.
        """
        (self.folder / ROOT).mkdir()
        if self.as_user:
            self._lay_out_folders()
        else:
            self._lay_over_root()
        self._hide()
        self._add_resolver_files()
        if layer is not None:
            self._add_layer(layer)
        return self.operations

    def _add(self, *operation: Any) -> None:
        self.operations.append(operation)

    # --- mounts ----------------------------------------------------------------------------------

    def _lay_over_root(self) -> None:
        self._overlay(_ROOT_PATH)
        for mount in self.mounts:
            # Overlays below the root are the file systems of an engine's containers.
            is_further_disk = mount.holds_files and mount.kind != "overlay"
            if mount.point == _ROOT_PATH or not is_further_disk or self.masks.hide(mount.point):
                continue
            if mount.point.is_dir():
                self._overlay(mount.point, optional=True)

    def _lay_out_folders(self) -> None:
        self._add("mount", ROOT, ROOT, "", sc.MS_BIND | sc.MS_REC, "")
        place = self.folder / ROOT / _HOME.lstrip("/")
        place.mkdir()
        place.chmod(0o700)
        for name in sorted(os.listdir(_ROOT_PATH)):  # noqa: PTH208  names, not paths
            if f"/{name}" not in (*FRESH_FOLDERS, _HOME, "/lost+found"):
                self._show(_ROOT_PATH / name)

    def _show(self, path: Path) -> None:
        """Show a host path in the laid-out root; a folder with mounts below it in parts."""
        place = self.folder / ROOT / path.relative_to("/")
        if path.is_symlink():
            place.symlink_to(path.readlink())
        elif path in self.masks.files or not os.access(path, os.R_OK):
            return
        elif path.is_file():
            place.touch()
            self._add("?mount", str(path), f"{ROOT}{path}", "", sc.MS_BIND, "")
            self._add("?read_only_tree", f"{ROOT}{path}")
        elif path.is_dir():
            self._show_folder(path, place)

    def _show_folder(self, path: Path, place: Path) -> None:
        place.mkdir()
        copy_status(path, place)
        is_window = any(mount.point == path and not mount.holds_files for mount in self.mounts)
        if is_window or self.masks.hide(path):
            return
        if any(path in mount.point.parents for mount in self.mounts):
            for name in sorted(os.listdir(path)):  # noqa: PTH208
                self._show(path / name)
        else:
            self._overlay(path, optional=str(path) not in ("/usr", "/etc"))

    def _overlay(self, path: Path, *, optional: bool = False) -> None:
        number = len(self._uppers)
        upper, work = self.folder / f"upper-{number}", self.folder / f"work-{number}"
        upper.mkdir()
        work.mkdir()
        copy_status(path, upper)
        self._uppers[path] = upper
        options = [
            f"lowerdir={_escape(str(path))}",
            f"upperdir={upper.name}",
            f"workdir={work.name}",
            "index=off",
            # Its sync at the end would write out the whole disk, beside other trials.
            "volatile",
        ]
        if self.as_user:
            options.append("userxattr")
        target = ROOT if path == _ROOT_PATH else f"{ROOT}{path}"
        mark = "?" if optional else ""
        self._add(f"{mark}mount", MOUNT_SOURCE, target, "overlay", sc.MS_NODEV, ",".join(options))

    # --- content of the upper layers -------------------------------------------------------------

    def _place(self, path: Path) -> Path:
        """Return where `path` lies in the upper layers, with the folders above it made.

        A folder in an upper layer decides how the merged one looks, so each repeats the host's mode
        and owner.
        """
        points = [point for point in self._uppers if path != point and path.is_relative_to(point)]
        point = max(points, key=lambda point: len(point.parts), default=_ROOT_PATH)
        place, host = self._uppers.get(point, self.folder / ROOT), point
        for part in path.relative_to(point).parts[:-1]:
            place, host = place / part, host / part
            if not place.is_dir():
                place.mkdir()
                copy_status(host, place)
        return place / path.name

    def _hide(self) -> None:
        for name, mode in FRESH_FOLDERS.items():
            self._make_opaque(Path(name), mode)
        for path in self.masks.folders:
            self._make_opaque(path, 0o755)
        for path in self.masks.files:
            if any(path.is_relative_to(point) for point in self._uppers):
                os.mknod(self._place(path), stat.S_IFCHR, 0)  # a whiteout

    def _make_opaque(self, path: Path, mode: int) -> None:
        place = self._place(path)
        place.mkdir(exist_ok=True)
        place.chmod(mode)
        if any(path.is_relative_to(point) for point in self._uppers):
            kind = "user" if self.as_user else "trusted"
            os.setxattr(place, f"{kind}.overlay.opaque", b"y")

    def _add_resolver_files(self) -> None:
        """Name resolution, where the overlay would not show it: a link to /run, or a mount."""
        for name in _RESOLVER_FILES:
            path = Path(name)
            if path.is_symlink() or path.is_mount():
                with contextlib.suppress(OSError):
                    content = path.read_bytes()
                    place = self._place(path)
                    place.unlink(missing_ok=True)
                    place.write_bytes(content)
                    place.chmod(0o644)

    def _add_layer(self, layer: Path) -> None:
        for folder, folders, names in os.walk(layer):
            for name in [*folders, *names]:
                source = Path(folder, name)
                path = follow_host_links(Path("/", source.relative_to(layer)))
                self._copy_up(source, self._place(path))

    def _copy_up(self, source: Path, place: Path) -> None:
        status = source.lstat()
        if stat.S_ISDIR(status.st_mode):
            place.mkdir(exist_ok=True)
        else:
            place.unlink(missing_ok=True)
            if stat.S_ISLNK(status.st_mode):
                place.symlink_to(source.readlink())
            else:
                shutil.copyfile(source, place)
        set_owner(place, status.st_uid, status.st_gid)
        if not stat.S_ISLNK(status.st_mode):
            place.chmod(stat.S_IMODE(status.st_mode))
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))


def _escape(path: str) -> str:
    """Write a path for overlay's option lists."""
    for character in "\\:,":
        path = path.replace(character, f"\\{character}")
    return path


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours whatever modes a trial, or the overlay itself, has left in it."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    with contextlib.suppress(OSError):
        _remove_anything(folder)
        return
    with contextlib.suppress(RecursionError):  # what is left, around what is in use
        shutil.rmtree(folder, ignore_errors=True)


def _remove_anything(folder: Path) -> None:
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove(folder.name, parent)
    finally:
        os.close(parent)
