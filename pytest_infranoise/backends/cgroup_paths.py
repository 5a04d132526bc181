"""Where a cgroup is on this host: the folders of a process's cgroup, version 1 and 2.

Version 2 is where the memory controller is, not where a ``0::`` line is: hybrid hosts have such a
line too. On version 1 each controller has a mount point and a path of its own.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_infranoise.backends.cgroup import V1_UNLIMITED, is_at_limit, parse_maximum, read_events


@dataclass(frozen=True, slots=True)
class CgroupPaths:
    """The folders of one cgroup; `version` is that of the memory controller.

    On version 2 all are one folder; on version 1 each controller has a folder of its own. None
    means that the controller is not mounted here. `local_events` says that version 2's event
    counters are not hierarchical on this host (mount option `memory_localevents`). `proc` is where
    the host itself is described.
    """

    version: int
    memory_path: Path | None
    cpu_path: Path | None = None
    cpuacct_path: Path | None = None
    local_events: bool = False
    proc: Path = field(default=Path("/proc"), compare=False)

    @classmethod
    def unified(cls, path: Path) -> "CgroupPaths":
        """The paths of a version 2 cgroup."""
        return cls(2, path, path, path)

    def memory(self, name: str) -> str | None:
        """Return a file of the memory controller, or None."""
        return _read(self.memory_path, name)

    def cpu(self, name: str) -> str | None:
        """Return a file of the CPU controller, or None."""
        return _read(self.cpu_path, name)

    def cpuacct(self, name: str) -> str | None:
        """Return a file of the CPU accounting controller, or None."""
        return _read(self.cpuacct_path, name)

    def host(self, name: str) -> str | None:
        """Return a file of this host's /proc, or None."""
        return _read(self.proc, name)

    def memory_subtree(self, name: str) -> list[str]:
        """Return the text of a memory file for the cgroup and each one below it."""
        if self.memory_path is None:
            return []
        texts = (_read(folder, name) for folder in _subtree(self.memory_path))
        return [text for text in texts if text is not None]


def _read(folder: Path | None, name: str) -> str | None:
    if folder is None:
        return None
    try:
        return (folder / name).read_text(encoding="utf-8", errors="replace")
    except OSError:  # absent here, or the cgroup vanished between listing and reading
        return None


def _subtree(top: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(top):  # os.walk passes over what vanishes meanwhile
        yield Path(folder)


@dataclass(frozen=True, slots=True)
class _Mount:
    """One mounted hierarchy: `root` is the cgroup that is visible at `point`."""

    root: str
    point: Path
    version: int
    options: frozenset[str]


def find_cgroup(
    pid: int | str = "self",
    *,
    root: Path = Path("/"),
    select: Callable[[str], str | None] = lambda path: path,
) -> CgroupPaths | None:
    """Return the cgroup of a process as this process can see it, or None.

    `root` is where /proc and the mount points are looked up. `select` maps the path that the kernel
    reports in each hierarchy to the one wanted (an ancestor of it, say), or to None to reject it.
    """
    try:
        membership = (root / f"proc/{pid}/cgroup").read_text(encoding="utf-8")
        mountinfo = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    paths = _parse_membership(membership)
    mounts = _parse_mounts(mountinfo, root)

    def folder(controller: str) -> tuple[int, Path, frozenset[str]] | None:
        version = 1 if controller in paths else 2
        reported = paths.get(controller, paths.get(""))
        wanted = None if reported is None else select(reported)
        if wanted is None:
            return None
        return _locate(wanted, controller, version, mounts)

    memory = folder("memory")
    if memory is None:
        return None
    version, memory_path, options = memory
    cpu = folder("cpu")
    cpuacct = cpu if version == 2 else folder("cpuacct")
    return CgroupPaths(
        version,
        memory_path,
        None if cpu is None else cpu[1],
        None if cpuacct is None else cpuacct[1],
        local_events="memory_localevents" in options,
        proc=root / "proc",
    )


def _parse_membership(text: str) -> dict[str, str]:
    """Map each version 1 controller to its path, and "" to the path in the version 2 tree."""
    paths = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _parse_mounts(text: str, root: Path) -> list[_Mount]:
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or len(kinds) < 3 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        point = root / _unescape(fields[4]).lstrip("/")
        version = 2 if kinds[0] == "cgroup2" else 1
        mounts.append(_Mount(_unescape(fields[3]), point, version, frozenset(kinds[2].split(","))))
    return mounts


def _unescape(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def _locate(
    path: str, controller: str, version: int, mounts: list[_Mount]
) -> tuple[int, Path, frozenset[str]] | None:
    """Find the folder of a cgroup path among the mounts that show it; the latest mount wins."""
    for mount in reversed(mounts):
        if mount.version != version or (version == 1 and controller not in mount.options):
            continue
        relative = _relative(path, mount.root)
        if relative is None or not (folder := mount.point / relative).is_dir():
            continue
        if version == 2 and controller == "memory" and not has_controller(folder, "memory"):
            continue
        return version, folder, mount.options
    return None


def _relative(path: str, mount_root: str) -> str | None:
    prefix = mount_root.rstrip("/")
    if path in (mount_root, prefix):
        return ""
    return path[len(prefix) + 1 :] if path.startswith(prefix + "/") else None


def has_controller(folder: Path, controller: str) -> bool:
    """Whether a version 2 cgroup has a controller."""
    return controller in (_read(folder, "cgroup.controllers") or "").split()


def has_ceiling(paths: CgroupPaths) -> bool:
    """Whether a cgroup above this one, as far as it is visible, has a memory limit of its own.

    A kill at such a ceiling is not one at the sandbox's own threshold.
    """
    return ceiling_of(paths) is not None


def ceiling_of(paths: CgroupPaths) -> int | None:
    """Return the least memory limit of the cgroups above this one, in bytes; None for no limit."""
    return min((limit for _, limit in _ceilings(paths)), default=None)


def ceiling_was_reached(paths: CgroupPaths) -> bool:
    """Whether a limit above this cgroup was ever reached, or may have been.

    The cgroup itself need not exist any more.
    """
    return any(_was_reached(folder, limit, paths.version) for folder, limit in _ceilings(paths))


def _was_reached(folder: Path, limit: int, version: int) -> bool:
    if version == 2:
        events = read_events(_read(folder, "memory.events.local"))
        return events.get("oom", 1) > 0 or events.get("max", 1) > 0
    peak = _read(folder, "memory.max_usage_in_bytes")
    return peak is None or is_at_limit(int(peak), limit)


def _ceilings(paths: CgroupPaths) -> Iterator[tuple[Path, int]]:
    name = "memory.limit_in_bytes" if paths.version == 1 else "memory.max"
    for folder in () if paths.memory_path is None else paths.memory_path.parents:
        text = _read(folder, name)
        if text is None:
            if paths.version == 1 or _read(folder, "cgroup.controllers") is None:
                return  # above the mount point; version 2's root has no memory.max
            continue
        limit = parse_maximum(text)
        if limit is not None and limit < V1_UNLIMITED:
            yield folder, limit


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The mounted cgroup trees of this host; `version` is that of the memory controller."""

    version: int
    memory: Path
    others: tuple[Path, ...] = ()


def find_hierarchies(*, root: Path = Path("/")) -> Hierarchies | None:
    """Return where the cgroup trees are mounted; None where only a part of them is visible."""
    try:
        text = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    mounts = [mount for mount in _parse_mounts(text, root) if mount.root == "/"]
    trees = [mount for mount in mounts if mount.version == 1 and "memory" in mount.options]
    if trees:
        memory = trees[-1].point
        others = {mount.point for mount in mounts} - {memory}
        return Hierarchies(1, memory, tuple(sorted(others)))
    for mount in reversed(mounts):
        if mount.version == 2 and has_controller(mount.point, "memory"):
            return Hierarchies(2, mount.point)
    return None
