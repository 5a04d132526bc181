"""Which file systems of the host a trial's view can be laid over, and where they show twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_infranoise.errors import BackendUnavailableError

_WITHOUT_FILES = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
     "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs",
     "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tmpfs", "tracefs"}
)  # fmt: skip
_UNFIT_FOR_LAYERS = frozenset({"tmpfs", "ramfs", "overlay", "nfs", "nfs4", "cifs", "9p"})


@dataclass(frozen=True, slots=True)
class HostMount:
    """One visible mount: `root` is the folder of the file system `device` that shows at `point`."""

    point: Path
    root: Path
    device: str
    kind: str

    @property
    def holds_files(self) -> bool:
        """Whether it is a file system for files, not a window on the kernel or memory."""
        return self.kind not in _WITHOUT_FILES

    @property
    def can_hold_layers(self) -> bool:
        """Whether an upper layer can lie there without counting as memory or being refused."""
        return self.kind not in _UNFIT_FOR_LAYERS and not self.kind.startswith("fuse")


def read_mounts(text: str | None = None) -> list[HostMount]:
    """Return the visible mounts, outer ones first; `text` is that of a mountinfo file."""
    if text is None:
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    shown: dict[Path, HostMount] = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        point = Path(_unescape(fields[4]))
        # A later mount hides what was mounted there and below before.
        for hidden in [other for other in shown if other.is_relative_to(point)]:
            del shown[hidden]
        shown[point] = HostMount(point, Path(_unescape(fields[3])), fields[2], after.split(" ")[0])
    return sorted(shown.values(), key=lambda mount: mount.point.parts)


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def mount_of(path: Path, mounts: Sequence[HostMount]) -> HostMount:
    """Return the mount that shows an absolute path without links.

    Raises:
        BackendUnavailableError: none does, as in a chroot whose root folder is no mount.
    """
    showing = [mount for mount in mounts if path.is_relative_to(mount.point)]
    if not showing:
        raise BackendUnavailableError(
            f"local backend: no mount shows {path}; in a chroot, bind-mount its root on itself"
        )
    return max(showing, key=lambda mount: len(mount.point.parts))


def aliases(path: Path, mounts: Sequence[HostMount]) -> list[Path]:
    """Return every place where the mounts show what is at `path`, itself included."""
    own = mount_of(path, mounts)
    inside = own.root / path.relative_to(own.point)
    found = [path]
    for mount in mounts:
        if mount.device == own.device and inside.is_relative_to(mount.root):
            found.append(mount.point / inside.relative_to(mount.root))
        elif mount.device == own.device and mount.root.is_relative_to(inside):
            found.append(mount.point)  # a part of it is mounted on its own
    return list(dict.fromkeys(found))
