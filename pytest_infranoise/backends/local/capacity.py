"""What this process may really use of the host: memory and cores."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pytest_infranoise.backends.cgroup import read_limits
from pytest_infranoise.backends.cgroup_paths import CgroupPaths, find_cgroup
from pytest_infranoise.model.resources import Capacity

_MINIMUM_MEMORY_BYTES = 1 << 20


def own_capacity(*, root: Path = Path("/")) -> Capacity:
    """Return the least of the host's figures, our cgroups' limits and our CPU affinity."""
    memory: float = total_memory(root=root)
    cores: float = len(os.sched_getaffinity(0))
    own = find_cgroup(root=root)
    for paths in () if own is None else _at_and_above(own):
        values = read_limits(paths).values
        memory = min(memory, values.get("memory_limit_bytes") or memory)
        cores = min(cores, values.get("cpu_limit_cores") or cores)
    return Capacity(int(memory), float(cores), _MINIMUM_MEMORY_BYTES)


def total_memory(*, root: Path = Path("/")) -> int:
    """Return MemTotal in bytes."""
    for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no MemTotal in /proc/meminfo")


def _at_and_above(own: CgroupPaths) -> Iterator[CgroupPaths]:
    yield own
    for folder in () if own.memory_path is None else own.memory_path.parents:
        if not (folder / "cgroup.procs").exists():
            break
        yield CgroupPaths(own.version, folder, folder if own.version == 2 else None)
    if own.version == 1 and own.cpu_path is not None:
        for folder in own.cpu_path.parents:
            if not (folder / "cgroup.procs").exists():
                break
            yield CgroupPaths(1, None, folder)


def machine_id() -> str:
    """Return what tells this boot of this machine from others."""
    for name in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        with contextlib.suppress(OSError):
            return Path(name).read_text(encoding="ascii").strip()
    return os.uname().nodename
