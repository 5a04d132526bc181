"""Where the trials' cgroups go, how they are made, and how they are removed.

Version 1: a folder of ours below this process's own cgroup, in each controller's own tree. Version
2: below the nearest cgroup whose controllers can be handed down, which is one without processes of
its own. Finding one's own cgroup is `backends.cgroup_paths`, reading `backends.cgroup`, and what a
limit means in files `limits`.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pytest_infranoise.backends.ceilings import share_protection
from pytest_infranoise.backends.cgroup_paths import CgroupPaths, find_cgroup, has_controller
from pytest_infranoise.backends.local.limits import settings_v1, settings_v2
from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT, Enforcement
from pytest_infranoise.model.resources import Allocation

PREFIX = "infranoise-"
HOST_LEAF = "infranoise-host"
"""Where this process goes if it stands in the delegated cgroup that it must hand down."""

_REMOVE_SECONDS = 5.0
_WANTED = ("memory", "cpu", "pids", "cpuset")


@dataclass(frozen=True, slots=True)
class CgroupParent:
    """Folders below which the trials' cgroups are made: one on version 2, one per controller on 1.

    `leaf` is the folder that this process had to move to, if it did.
    """

    version: int
    folders: dict[str, Path]
    leaf: Path | None = None
    local_events: bool = False

    @property
    def limits_cpu(self) -> bool:
        """Whether CPU quotas can be enforced."""
        return "cpu" in self.folders

    def child(self, name: str, *, has_cpus: bool = False) -> "TrialCgroup":
        """The cgroup of one trial; `make` creates it.

        `has_cpus` says that it will be bound to CPUs: on version 1 a cgroup of the cpuset
        controller is made only then, since none can run in one without CPUs.
        """
        folders = {
            key: folder / name
            for key, folder in self.folders.items()
            if key != "cpuset" or has_cpus
        }
        return TrialCgroup(self.version, folders, self.local_events)

    def under(self, ceiling: Path) -> "CgroupParent":
        """The same below a ceiling, which is a cgroup of the memory controller below this one."""
        if self.version == 1:
            return replace(self, folders={**self.folders, "memory": ceiling})
        _hand_down(ceiling)
        return replace(self, folders=dict.fromkeys(self.folders, ceiling))


@dataclass(frozen=True, slots=True)
class TrialCgroup:
    """The cgroup of one trial: its folder per controller (all the same on version 2)."""

    version: int
    folders: dict[str, Path]
    local_events: bool = False

    @property
    def unique_folders(self) -> tuple[Path, ...]:
        """Each folder once."""
        return tuple(dict.fromkeys(self.folders.values()))

    @property
    def paths(self) -> CgroupPaths:
        """The same for the readers of `backends.cgroup`."""
        folders = self.folders
        cpuacct = folders.get("cpuacct") if self.version == 1 else folders["memory"]
        cpu = folders.get("cpu") if self.version == 1 else folders["memory"]
        return CgroupPaths(self.version, folders["memory"], cpu, cpuacct, self.local_events)

    def make(
        self,
        allocation: Allocation,
        enforcement: Enforcement = DEFAULT_ENFORCEMENT,
        cpus: tuple[int, ...] | None = None,
    ) -> None:
        """Create it, set its limits and bind it to CPUs.

        Raises:
            OSError: the kernel refused; nothing is left behind.
        """
        try:
            for folder in self.unique_folders:
                folder.mkdir()
            settings = settings_v1 if self.version == 1 else settings_v2
            for controller, name, value in settings(allocation, enforcement):
                self._set(controller, name.lstrip("?"), value, optional=name.startswith("?"))
            if cpus is not None and "cpuset" in self.folders:
                self._bind(cpus)
            if self.version == 2:
                share_protection(self.folders["memory"].parent)
        except OSError:
            self.remove()
            raise

    def _bind(self, cpus: tuple[int, ...]) -> None:
        folder = self.folders["cpuset"]
        if self.version == 1:  # without memory nodes nothing can run in it
            nodes = (folder.parent / "cpuset.mems").read_text(encoding="ascii")
            (folder / "cpuset.mems").write_text(nodes, encoding="ascii")
        (folder / "cpuset.cpus").write_text(",".join(map(str, cpus)), encoding="ascii")

    def _set(self, controller: str, name: str, value: int | str, *, optional: bool) -> None:
        folder = self.folders.get(controller)
        if folder is None:
            return
        try:
            (folder / name).write_text(str(value), encoding="ascii")
        except OSError:
            if not optional:
                raise

    def remove(self) -> None:
        """Remove it with what was made below it, and wait for a kill that is not over yet."""
        for folder in self.unique_folders:
            remove_cgroup(folder)
        if self.version == 2:
            share_protection(self.folders["memory"].parent)


def remove_cgroup(folder: Path) -> None:
    """Remove a cgroup and those below it; kills what still runs in them."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while folder.exists():
        for inner, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):
                Path(inner).rmdir()
        if not folder.exists() or time.monotonic() > deadline:
            return
        for inner, _, _ in os.walk(folder):
            _kill_members(Path(inner))
        time.sleep(0.002)


def _kill_members(folder: Path) -> None:
    for pid in _numbers(folder / "cgroup.procs"):
        if pid > 0:  # 0 is a process that this PID namespace does not show
            with contextlib.suppress(OSError):
                os.kill(pid, 9)


def _numbers(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


# --- where ---------------------------------------------------------------------------------------


def find_parent(*, root: Path = Path("/")) -> CgroupParent | None:
    """Return where cgroups with a memory limit can be made, or None if nowhere.

    May move this process, see `HOST_LEAF`; `restore` undoes that.
    """
    own = _nearest_with_memory(root)
    if own is None or own.memory_path is None:
        return None
    parent = _parent_v1(own, root) if own.version == 1 else _parent_v2(own.memory_path)
    if parent is None or not _works(parent):
        return None
    return replace(parent, local_events=own.local_events)


def _nearest_with_memory(root: Path) -> CgroupPaths | None:
    """Our own cgroup, or on version 2 the nearest above it that has the memory controller."""
    for level in range(64):

        def ancestor(path: str, level: int = level) -> str | None:
            chain = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
            return chain[level] if level < len(chain) else None

        found = find_cgroup(root=root, select=ancestor)
        if found is not None:
            return found
    return None


def _works(parent: CgroupParent) -> bool:
    """Whether a cgroup with limits can really be made there, rather than by permissions alone."""
    probe = parent.child(f"{PREFIX}probe-{os.getpid()}-{time.monotonic_ns():x}")
    try:
        probe.make(Allocation(1 << 20, 1 << 26, 0.1, 0.5))
    except OSError:
        return False
    probe.remove()
    return True


def _parent_v1(own: CgroupPaths, root: Path) -> CgroupParent | None:
    assert own.memory_path is not None
    found = {"memory": own.memory_path, "cpu": own.cpu_path, "cpuacct": own.cpuacct_path}
    found |= {name: _find_v1(name, root) for name in ("pids", "cpuset")}
    folders = {
        key: folder for key, folder in found.items() if folder and os.access(folder, os.W_OK)
    }
    return CgroupParent(1, folders) if "memory" in folders else None


def _find_v1(controller: str, root: Path) -> Path | None:
    """Find this process's cgroup in one more version 1 hierarchy."""
    membership = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    fields = [line.split(":", 2) for line in membership]
    own = next((path for _, names, path in fields if controller in names.split(",")), None)
    if own is None:
        return None
    for line in (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and controller in options.split(","):
            shown, point = before.split(" ")[3:5]
            inside = own.removeprefix(shown.rstrip("/")).lstrip("/")
            folder = root / point.lstrip("/") / inside
            if folder.is_dir():
                return folder
    return None


def _parent_v2(own: Path) -> CgroupParent | None:
    """Choose the nearest cgroup at or above our own that can hand its controllers down.

    A delegated cgroup of our own comes first, although this process must leave it for a leaf
    below, since its manager keeps its hands off what it has delegated.
    """
    if _is_delegated(own) and (moved := _hand_down_own(own)) is not None:
        return moved
    for needed in (("memory", "cpu"), ("memory",)):
        for folder in (own, *own.parents):
            if not (folder / "cgroup.controllers").exists():
                break
            has_all = all(has_controller(folder, name) for name in needed)
            if has_all and _can_hold(folder) and _hand_down(folder):
                return _unified(folder)
    return _hand_down_own(own)


def _unified(folder: Path, leaf: Path | None = None) -> CgroupParent:
    handed = _words(folder / "cgroup.subtree_control")
    return CgroupParent(2, {name: folder for name in _WANTED if name in handed}, leaf)


def _is_delegated(folder: Path) -> bool:
    """Whether systemd marked the cgroup as delegated to what runs in it."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def _can_hold(folder: Path) -> bool:
    is_true_root = not (folder / "cgroup.type").exists()
    is_writable = all(os.access(folder / name, os.W_OK) for name in ("", "cgroup.procs"))
    return is_writable and (is_true_root or not _numbers(folder / "cgroup.procs"))


def _hand_down(folder: Path) -> bool:
    """Enable the controllers for the cgroups below; whether memory is."""
    control = folder / "cgroup.subtree_control"
    for name in _WANTED:
        if has_controller(folder, name) and name not in _words(control):
            with contextlib.suppress(OSError):
                control.write_text(f"+{name}", encoding="ascii")
    return "memory" in _words(control)


def _hand_down_own(own: Path) -> CgroupParent | None:
    """Move every process of our own cgroup into a leaf below it, so that it can hand down."""
    if not os.access(own, os.W_OK) or not has_controller(own, "memory"):
        return None
    leaf = own / HOST_LEAF
    try:
        leaf.mkdir(exist_ok=True)
        _move_all(own, leaf)
    except OSError:
        with contextlib.suppress(OSError):
            leaf.rmdir()
        return None
    return _unified(own, leaf) if _hand_down(own) else None


def _move_all(source: Path, target: Path) -> None:
    for _ in range(100):  # processes may be born meanwhile
        pids = _numbers(source / "cgroup.procs")
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (target / "cgroup.procs").write_text(str(pid), encoding="ascii")


def restore(leaf: Path | None) -> None:
    """Undo a move to a leaf, unless trials of others still stand beside it."""
    if leaf is None:
        return
    parent = leaf.parent
    with contextlib.suppress(OSError):
        if any(folder != leaf for folder in _our_cgroups(parent)):
            return
        for name in _words(parent / "cgroup.subtree_control") & set(_WANTED):
            (parent / "cgroup.subtree_control").write_text(f"-{name}", encoding="ascii")
        _move_all(leaf, parent)
        leaf.rmdir()


def _our_cgroups(folder: Path) -> Iterable[Path]:
    return folder.glob(f"{PREFIX}*/")


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text(encoding="ascii").split())
    except OSError:
        return set()
