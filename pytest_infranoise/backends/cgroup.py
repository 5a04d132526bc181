"""The kernel's own numbers about a cgroup, version 1 and 2: counters and limits.

Where the text comes from is left open (`CgroupFiles`): folders of this host (`cgroup_paths`), or
files fetched out of a container on another machine.

Facts the readers rely on:

- version 1 counts `oom_kill` in the victim's own cgroup only, so it is summed over the subtree;
  version 2's `memory.events` is hierarchical unless mounted with `memory_localevents`.
- `memory.failcnt` stays 0 on current kernels, so on version 1 only the peak tells whether the limit
  was reached.
"""

import os
from typing import Any, Protocol

from pytest_infranoise.backends.base import EffectiveLimits
from pytest_infranoise.model.outcome import Counters

CgroupValues = dict[str, int | float | None]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# A charge of more than 2**3 pages never invokes the OOM killer, so at a kill the usage stands at
# most that far below the limit.
_LARGEST_FATAL_CHARGE_BYTES = 8 * _PAGE_BYTES
_V1_USAGE = ("memory.usage_in_bytes", "total_")
V1_UNLIMITED = 2**63 - 1 - 65536
"""Limits from here on mean none: the largest multiple of the page size in a signed long."""


class CgroupFiles(Protocol):
    """Text of a cgroup's files, wherever it lives; None for a file that is not there."""

    @property
    def version(self) -> int:
        """The cgroup version that the memory controller is on."""

    @property
    def local_events(self) -> bool:
        """Whether version 2's event counters are not hierarchical (`memory_localevents`)."""

    def memory(self, name: str) -> str | None:
        """Return a file of the memory controller."""

    def cpu(self, name: str) -> str | None:
        """Return a file of the CPU controller."""

    def cpuacct(self, name: str) -> str | None:
        """Return a file of the CPU accounting controller (version 2: the CPU controller)."""

    def memory_subtree(self, name: str) -> list[str]:
        """Return that file's text for the cgroup and each one below it."""

    def host(self, name: str) -> str | None:
        """Return a file of the engine's host below /proc."""


def read_counters(files: CgroupFiles, memory_limit_bytes: int | None) -> Counters:
    """Read a cgroup's counters; a value that the kernel does not offer here is None.

    `memory_limit_bytes` is the sandbox's own kill threshold, None in an uncapped set.
    """
    peak = _integer(files.memory(_peak_name(files)))
    cpu = _pairs(files.cpu("cpu.stat"))
    kills = _oom_kills(files)
    return Counters(
        oom_kills=kills,
        limit_reached=_limit_reached(files, peak, memory_limit_bytes),
        limit_hits=_limit_hits(files, peak, memory_limit_bytes),
        memory_peak_bytes=peak,
        **_memory_in_use(files),
        cpu_seconds=_cpu_seconds(files, cpu),
        cpu_periods=cpu.get("nr_periods"),
        throttled_periods=cpu.get("nr_throttled"),
        throttled_seconds=_throttled_seconds(cpu),
        **_pressures(files),
        **_host_cpu(files),
        source=None if kills is None else _kills_source(files),
    )


def _kills_source(files: CgroupFiles) -> str:
    name = "memory.oom_control" if files.version == 1 else "memory.events"
    return f"cgroup v{files.version} {name}"


def _peak_name(files: CgroupFiles) -> str:
    return "memory.max_usage_in_bytes" if files.version == 1 else "memory.peak"


def _oom_kills(files: CgroupFiles) -> int | None:
    """Kills over the whole subtree; None where the top of it cannot be read (kernel < 4.13)."""
    name = "memory.oom_control" if files.version == 1 else "memory.events"
    top = _pairs(files.memory(name)).get("oom_kill")
    if top is None or (files.version == 2 and not files.local_events):
        return top
    return sum(_pairs(text).get("oom_kill", 0) for text in files.memory_subtree(name))


def _own_events(files: CgroupFiles) -> dict[str, int]:
    """Version 2 events of the cgroup itself, without those below (kernel >= 5.2)."""
    own = files.memory("memory.events.local")
    return _pairs(files.memory("memory.events") if own is None else own)


def _limit_reached(
    files: CgroupFiles, peak: int | None, memory_limit_bytes: int | None
) -> bool | None:
    if memory_limit_bytes is None:
        return False
    if files.version == 2:
        events = _own_events(files)
        if "max" not in events:
            return None
        return events["max"] > 0 or events.get("oom", 0) > 0
    return None if peak is None else is_at_limit(peak, memory_limit_bytes)


def is_at_limit(peak: int, limit_bytes: int) -> bool:
    """Whether a peak stands where a limit lets it rise no further (bytes)."""
    return peak > limit_bytes - _LARGEST_FATAL_CHARGE_BYTES


def _limit_hits(files: CgroupFiles, peak: int | None, memory_limit_bytes: int | None) -> int | None:
    if files.version == 2:
        return _own_events(files).get("max")
    hits = _integer(files.memory("memory.failcnt"))
    if hits == 0 and _limit_reached(files, peak, memory_limit_bytes) is not False:
        return None  # the limit was reached, so this kernel does not count
    return hits


def _memory_in_use(files: CgroupFiles) -> dict[str, Any]:
    """Read the charge without the page cache that goes first, and without any page cache."""
    name, prefix = ("memory.current", "") if files.version == 2 else _V1_USAGE
    statistics, usage = _pairs(files.memory("memory.stat")), _integer(files.memory(name))
    inactive = statistics.get(f"{prefix}inactive_file")
    active = statistics.get(f"{prefix}active_file")
    if usage is None or inactive is None:
        return {}
    cache = None if active is None else inactive + active
    return {
        "memory_working_set_bytes": max(0, usage - inactive),
        "memory_held_bytes": None if cache is None else max(0, usage - cache),
    }


def _cpu_seconds(files: CgroupFiles, cpu: dict[str, int]) -> float | None:
    if "usage_usec" in cpu:
        return cpu["usage_usec"] / 1e6
    nanoseconds = _integer(files.cpuacct("cpuacct.usage"))
    return None if nanoseconds is None else nanoseconds / 1e9


def _throttled_seconds(cpu: dict[str, int]) -> float | None:
    if "throttled_usec" in cpu:
        return cpu["throttled_usec"] / 1e6
    return cpu["throttled_time"] / 1e9 if "throttled_time" in cpu else None


def _pressures(files: CgroupFiles) -> dict[str, Any]:
    """Read pressure stall information: version 2 has it per cgroup, and the host as a whole."""
    found: dict[str, Any] = {}
    has_own = files.version == 2
    for prefix, memory, cpu in (
        (
            "",
            files.memory("memory.pressure") if has_own else None,
            files.cpu("cpu.pressure") if has_own else None,
        ),
        ("host_", files.host("pressure/memory"), files.host("pressure/cpu")),
    ):
        found[f"{prefix}memory_some_pressure_seconds"] = stalled_seconds(memory, "some")
        found[f"{prefix}memory_full_pressure_seconds"] = stalled_seconds(memory, "full")
        found[f"{prefix}cpu_some_pressure_seconds"] = stalled_seconds(cpu, "some")
    return found


def stalled_seconds(text: str | None, kind: str) -> float | None:
    """Return the total of a pressure file's line `some` or `full`, in seconds."""
    for line in (text or "").splitlines():
        word, *fields = line.split()
        total = next((field[6:] for field in fields if field.startswith("total=")), "")
        if word == kind and total.isdecimal():
            return int(total) / 1e6
    return None


def _host_cpu(files: CgroupFiles) -> dict[str, Any]:
    """Read how long the host's CPUs worked and how long they were there, since it was booted.

    Guest time is part of user time already; waiting for a disk is idle.
    """
    first = (files.host("stat") or "").partition("\n")[0].split()
    if len(first) < 9 or first[0] != "cpu":
        return {}
    ticks = [int(word) for word in first[1:9]]
    total, idle = sum(ticks), ticks[3] + ticks[4]
    return {
        "host_cpu_busy_seconds": (total - idle) / _TICKS_PER_SECOND,
        "host_cpu_total_seconds": total / _TICKS_PER_SECOND,
    }


def read_limits(files: CgroupFiles) -> EffectiveLimits:
    """Read the limits in force back from the kernel; a limit that cannot be read is absent."""
    values = _limits_v1(files) if files.version == 1 else _limits_v2(files)
    return EffectiveLimits(values, f"cgroup v{files.version}")


def _limits_v1(files: CgroupFiles) -> CgroupValues:
    values: CgroupValues = {}
    for key, name in (
        ("memory_limit_bytes", "memory.limit_in_bytes"),
        ("memory_reservation_bytes", "memory.soft_limit_in_bytes"),
        ("memory_swap_bytes", "memory.memsw.limit_in_bytes"),
    ):
        limit = _integer(files.memory(name))
        if limit is not None:
            values[key] = None if limit >= V1_UNLIMITED else limit
    quota = _integer(files.cpu("cpu.cfs_quota_us"))
    period = _integer(files.cpu("cpu.cfs_period_us"))
    if quota is not None and period:
        values["cpu_limit_cores"] = None if quota < 0 else quota / period
    shares = _integer(files.cpu("cpu.shares"))
    if shares is not None:
        values["cpu_weight"] = shares
    return values


def _limits_v2(files: CgroupFiles) -> CgroupValues:
    values: CgroupValues = {}
    limit = files.memory("memory.max")
    if limit is not None:
        values["memory_limit_bytes"] = parse_maximum(limit)
    reservation = _integer(files.memory("memory.low"))
    if reservation is not None:
        values["memory_reservation_bytes"] = reservation or None
    protected = _integer(files.memory("memory.min"))
    if protected is not None:
        values["memory_protected_bytes"] = protected or None
    swap = files.memory("memory.swap.max")
    if limit is not None and swap is not None:
        parts = (parse_maximum(limit), parse_maximum(swap))
        values["memory_swap_bytes"] = None if None in parts else sum(filter(None, parts))
    quota = (files.cpu("cpu.max") or "").split()
    if len(quota) == 2:
        values["cpu_limit_cores"] = None if quota[0] == "max" else int(quota[0]) / int(quota[1])
    weight = _integer(files.cpu("cpu.weight"))
    if weight is not None:
        values["cpu_weight"] = weight
    return values


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def parse_maximum(text: str) -> int | None:
    """Return the number in a version 2 limit file; None for `max`."""
    return None if text.strip() == "max" else int(text)


def read_events(text: str | None) -> dict[str, int]:
    """Return the counts of a flat keyed file; empty where it cannot be read."""
    return _pairs(text)


def _pairs(text: str | None) -> dict[str, int]:
    """Read a flat keyed file; lines of another shape are passed over."""
    values = {}
    for line in (text or "").splitlines():
        name, _, number = line.partition(" ")
        if number.strip().lstrip("-").isdigit():
            values[name] = int(number)
    return values
