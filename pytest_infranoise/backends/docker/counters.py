"""A container's cgroup: read on this host where that is possible, else inside the container."""

from dataclasses import dataclass, field
from pathlib import Path

from pytest_infranoise.backends.cgroup_paths import CgroupPaths, find_cgroup

_HEADER = "==> "
_HOST = "./proc/"
_UNIFIED = (
    "cgroup.controllers memory.events memory.events.local memory.peak memory.current memory.stat "
    "memory.max memory.low memory.min memory.swap.max memory.pressure cpu.stat cpu.max cpu.weight "
    "cpu.pressure"
)
_V1_MEMORY = (
    "memory.oom_control memory.max_usage_in_bytes memory.failcnt memory.usage_in_bytes memory.stat "
    "memory.limit_in_bytes memory.soft_limit_in_bytes memory.memsw.limit_in_bytes"
)
_V1_CPU = "cpu.stat cpu.cfs_quota_us cpu.cfs_period_us cpu.shares"

FETCH_SCRIPT = f"""
show() {{
  folder=$1; shift
  for name; do
    [ -r "$folder/$name" ] || continue
    echo "{_HEADER}$folder/$name"
    while read -r line; do echo "$line"; done <"$folder/$name"
  done
}}
cd /sys/fs/cgroup || exit 0
show . {_UNIFIED}
show memory {_V1_MEMORY}
show cpu {_V1_CPU}
show cpuacct cpuacct.usage
cd /proc
for name in pressure/memory pressure/cpu; do
  [ -r "$name" ] || continue
  echo "{_HEADER}{_HOST}$name"
  while read -r line; do echo "$line"; done <"$name"
done
read -r line <stat && echo "{_HEADER}{_HOST}stat" && echo "$line"
exit 0
"""
"""Prints the cgroup's files under a header line each, with the shell's own commands only."""


def find_on_host(pid: int, container_id: str) -> CgroupPaths | None:
    """Return the container's cgroup if its main process is visible here and really is in it.

    A remote engine's process number may name a stranger here, so the container's id must stand in
    the stranger's cgroup path. The cgroup returned is the container's own, above any that were made
    inside it.
    """

    def select(path: str) -> str | None:
        parts = path.split("/")
        matches = [index for index, part in enumerate(parts) if container_id in part]
        return "/".join(parts[: matches[0] + 1]) if matches else None

    return find_cgroup(pid, select=select) if pid > 0 else None


def memory_available() -> int | None:
    """Return how many bytes of this host's memory are free for use, None if it does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = [line.split()[1] for line in text.splitlines() if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


@dataclass(frozen=True, slots=True)
class FetchedFiles:
    """The files as one command inside the container printed them (`CgroupFiles`)."""

    version: int
    texts: dict[str, str] = field(default_factory=dict)
    local_events: bool = False

    def memory(self, name: str) -> str | None:
        """Return a file of the memory controller."""
        return self.texts.get(self._path("memory", name))

    def cpu(self, name: str) -> str | None:
        """Return a file of the CPU controller."""
        return self.texts.get(self._path("cpu", name))

    def cpuacct(self, name: str) -> str | None:
        """Return a file of the CPU accounting controller."""
        return self.texts.get(self._path("cpuacct", name))

    def host(self, name: str) -> str | None:
        """Return a file of the engine's host, as /proc in the container shows it."""
        return self.texts.get(f"{_HOST}{name}")

    def memory_subtree(self, name: str) -> list[str]:
        """Return the top's file: the engine lets nobody make cgroups inside a container."""
        text = self.memory(name)
        return [] if text is None else [text]

    def _path(self, controller: str, name: str) -> str:
        return f"./{name}" if self.version == 2 else f"{controller}/{name}"


def parse_fetched(output: str) -> FetchedFiles | None:
    """Read what `FETCH_SCRIPT` printed; None if no memory controller is visible in there."""
    lines: dict[str, list[str]] = {}
    current: list[str] = []
    for line in output.splitlines():
        if line.startswith(_HEADER):
            current = lines.setdefault(line.removeprefix(_HEADER), [])
        else:
            current.append(line)
    texts = {path: "\n".join(content) for path, content in lines.items()}
    if "memory" in texts.get("./cgroup.controllers", "").split():
        return FetchedFiles(2, texts)
    return FetchedFiles(1, texts) if "memory/memory.oom_control" in texts else None
