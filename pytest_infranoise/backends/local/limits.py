"""A trial's limits as the files of its cgroup, version 1 and 2."""

from collections.abc import Iterator

from pytest_infranoise.model.enforcement import Enforcement
from pytest_infranoise.model.resources import Allocation

PIDS_LIMIT = 4096
_PERIOD_US = 100_000
_SHARES_PER_CORE = 1024
_SHARES_RANGE = (2, 262144)

Setting = tuple[str, str, int | str]
"""Controller, file, value; a file named with a leading `?` may be absent."""


def cpu_shares(cores: float) -> int:
    """Return the weight of a guarantee in version 1's unit, as Docker does: 1024 per core."""
    low, high = _SHARES_RANGE
    return min(high, max(low, round(cores * _SHARES_PER_CORE)))


def cpu_weight(cores: float) -> int:
    """Return the weight of a guarantee in version 2's unit: the range of shares onto 1 to 10000."""
    low, high = _SHARES_RANGE
    return 1 + (cpu_shares(cores) - low) * 9999 // (high - low)


def _quota(cores: float) -> int:
    return max(1000, round(cores * _PERIOD_US))


def settings_v1(allocation: Allocation, enforcement: Enforcement) -> Iterator[Setting]:
    """Yield what is set in a trial's version 1 cgroups, in order."""
    limit, can_swap = allocation.memory_limit_bytes, enforcement.swap == "twice"
    if limit is not None:
        yield "memory", "memory.limit_in_bytes", limit
        yield "memory", "?memory.memsw.limit_in_bytes", 2 * limit if can_swap else limit
    if not can_swap:
        yield "memory", "?memory.swappiness", 0
    if allocation.memory_reservation_bytes:  # 0 would make it the first to be reclaimed from
        yield "memory", "memory.soft_limit_in_bytes", allocation.memory_reservation_bytes
    if allocation.cpu_limit_cores is not None:
        yield "cpu", "cpu.cfs_period_us", _PERIOD_US
        yield "cpu", "cpu.cfs_quota_us", _quota(allocation.cpu_limit_cores)
    if allocation.cpu_guarantee_cores is not None:
        yield "cpu", "cpu.shares", cpu_shares(allocation.cpu_guarantee_cores)
    yield "pids", "pids.max", PIDS_LIMIT


def settings_v2(allocation: Allocation, enforcement: Enforcement) -> Iterator[Setting]:
    """Yield what is set in a trial's version 2 cgroup, in order."""
    limit, can_swap = allocation.memory_limit_bytes, enforcement.swap == "twice"
    yield "memory", "memory.max", "max" if limit is None else limit
    yield "memory", "?memory.swap.max", ("max" if limit is None else limit) if can_swap else 0
    yield "memory", "memory.low", allocation.memory_reservation_bytes
    yield "memory", "?memory.min", allocation.memory_reservation_bytes
    if enforcement.oom_policy == "container":
        yield "memory", "?memory.oom.group", 1
    if allocation.cpu_limit_cores is not None:
        yield "cpu", "cpu.max", f"{_quota(allocation.cpu_limit_cores)} {_PERIOD_US}"
    if allocation.cpu_guarantee_cores is not None:
        yield "cpu", "cpu.weight", cpu_weight(allocation.cpu_guarantee_cores)
    yield "pids", "pids.max", PIDS_LIMIT
