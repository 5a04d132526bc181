"""The part of a trial's view that is no file system: /dev, /proc and /sys, as operations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_infranoise.backends.local.inside import syscalls as sc

ROOT = "view"
"""The folder, below a sandbox's own, where its view is put together."""
MOUNT_SOURCE = "infranoise"
"""What mounts of ours are called in mount tables."""

SHARED_MEMORY_BYTES = 64 << 20
"""Size of /dev/shm: Docker's default, so that a program finds the same room on both backends."""

Operation = tuple[Any, ...]
"""A name of `inside.mounting` and its arguments."""


@dataclass(slots=True)
class KernelWindows:
    """Collects the operations; `cgroup_folders` are the trial's own, shown read-only."""

    as_user: bool
    cgroup_version: int | None
    cgroup_folders: Mapping[str, Path]
    operations: list[Operation] = field(default_factory=list)

    def make(self) -> list[Operation]:
        """Return the operations in order; they expect the mounted view."""
        self._add_devices()
        self._add_proc()
        self._add_sys()
        return self.operations

    def _add(self, *operation: Any) -> None:
        self.operations.append(operation)

    def _bind_read_only(self, source: str | Path, target: str) -> None:
        flags = sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC
        remount = sc.MS_BIND | sc.MS_REMOUNT | sc.MS_RDONLY | flags
        self._add("?mount", str(source), target, "", sc.MS_BIND, "")
        self._add("?mount", "", target, "", remount, "")

    def _add_devices(self) -> None:
        dev = f"{ROOT}/dev"
        no_programs = sc.MS_NOSUID | sc.MS_NOEXEC
        self._add("mount", MOUNT_SOURCE, dev, "tmpfs", no_programs, "mode=755,size=64k")
        for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
            self._add_device(f"{dev}/{name}", name, 1, minor)
        self._add_device(f"{dev}/tty", "tty", 5, 0)
        for name, aim in (
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ):
            self._add("link", aim, f"{dev}/{name}")
        for name, mode in (("pts", 0o755), ("shm", 0o1777), ("mqueue", 0o1777)):
            self._add("folder", f"{dev}/{name}", mode)
        group = "" if self.as_user else ",gid=5"
        options = f"newinstance,ptmxmode=0666,mode=0620{group}"
        self._add("mount", MOUNT_SOURCE, f"{dev}/pts", "devpts", no_programs, options)
        no_files = no_programs | sc.MS_NODEV
        self._add(
            "mount",
            MOUNT_SOURCE,
            f"{dev}/shm",
            "tmpfs",
            no_files,
            f"mode=1777,size={SHARED_MEMORY_BYTES}",
        )
        self._add("?mount", MOUNT_SOURCE, f"{dev}/mqueue", "mqueue", no_files, "")

    def _add_device(self, path: str, name: str, major: int, minor: int) -> None:
        if self.as_user:
            self._add("file", path)
            self._add("mount", f"/dev/{name}", path, "", sc.MS_BIND, "")
        else:
            self._add("node", path, major, minor)

    def _add_proc(self) -> None:
        proc = f"{ROOT}/proc"
        flags = sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC
        self._add("mount", MOUNT_SOURCE, proc, "proc", flags, "")
        for name in ("bus", "fs", "irq", "sys", "sysrq-trigger"):
            self._bind_read_only(f"{proc}/{name}", f"{proc}/{name}")
        for name in ("kcore", "keys", "latency_stats", "timer_list", "sched_debug"):
            self._add("?mount", f"{ROOT}/dev/null", f"{proc}/{name}", "", sc.MS_BIND, "")
        for name in ("acpi", "scsi"):
            self._add(
                "?mount", MOUNT_SOURCE, f"{proc}/{name}", "tmpfs", flags | sc.MS_RDONLY, "size=4k"
            )

    def _add_sys(self) -> None:
        sys_folder = f"{ROOT}/sys"
        flags = sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC | sc.MS_RDONLY
        if self.as_user:
            self._add("mount", "/sys", sys_folder, "", sc.MS_BIND | sc.MS_REC, "")
            self._add("read_only_tree", sys_folder)
        else:
            self._add("mount", MOUNT_SOURCE, sys_folder, "sysfs", flags, "")
        self._add("?mount", MOUNT_SOURCE, f"{sys_folder}/firmware", "tmpfs", flags, "size=4k")
        shown = f"{sys_folder}/fs/cgroup"
        if self.cgroup_version == 2:
            self._bind_read_only(self.cgroup_folders["memory"], shown)
        elif self.cgroup_version == 1:
            self._add(
                "?mount", MOUNT_SOURCE, shown, "tmpfs", flags & ~sc.MS_RDONLY, "mode=755,size=64k"
            )
            for controller, source in self.cgroup_folders.items():
                self._add("?folder", f"{shown}/{controller}", 0o755)
                self._bind_read_only(source, f"{shown}/{controller}")
            self._add("?mount", "", shown, "", sc.MS_REMOUNT | sc.MS_BIND | flags, "")
