"""What a trial reserves, and the budget that all trials on one engine share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pytest_infranoise.errors import UsageError, listing
from pytest_infranoise.model.resources import Allocation, Capacity
from pytest_infranoise.units import MIB, format_cores, format_size

Admit = Literal["guarantee", "limit"]
"""What is reserved: the guarantee (thresholds are overcommitted) or the kill threshold."""

MICROCORES = 1_000_000
RESERVE_SHARE = 0.05
MINIMUM_RESERVE_BYTES = 512 * MIB
MAXIMUM_RESERVE_SHARE = 0.25


def to_microcores(cores: float | None) -> int:
    """Return cores as an integer, so that sums of many shares are exact; None reserves none.

    >>> to_microcores(1 / 3) * 3 <= to_microcores(1)
    True
    """
    return 0 if cores is None else round(cores * MICROCORES)


@dataclass(frozen=True, slots=True)
class Request:
    """A share of the host: both figures are granted together or not at all."""

    memory_bytes: int
    cpu_cores: float | None
    label: str = ""

    @property
    def microcores(self) -> int:
        """The cores as the ledger counts them."""
        return to_microcores(self.cpu_cores)


@dataclass(frozen=True, slots=True)
class Budget:
    """What all trials on one engine may reserve together."""

    memory_bytes: int
    cpu_cores: float

    def can_ever_hold(self, request: Request) -> bool:
        """Whether the request fits while nothing else runs."""
        return self.has_room(request.memory_bytes, request.microcores)

    def has_room(self, memory_bytes: int, microcores: int) -> bool:
        """Whether these sums stay within the budget."""
        return memory_bytes <= self.memory_bytes and microcores <= to_microcores(self.cpu_cores)


def default_budget(capacity: Capacity) -> Budget:
    """Return the engine's cores, and its memory minus a reserve for everything else.

    The reserve is 5 % of the memory, at least 512 MiB, but never more than a quarter.
    """
    memory = capacity.memory_bytes
    reserve = max(int(memory * RESERVE_SHARE), MINIMUM_RESERVE_BYTES)
    return Budget(memory - min(reserve, int(memory * MAXIMUM_RESERVE_SHARE)), capacity.cpu_cores)


def make_budget(
    capacity: Capacity, *, memory_bytes: int | None = None, cpu_cores: float | None = None
) -> Budget:
    """Return the default budget with the user's figures in place of its own.

    CPU may be overcommitted, since it only slows trials down.

    Raises:
        UsageError: more memory than the engine has; that would only move the kills elsewhere.
    """
    default = default_budget(capacity)
    if memory_bytes is not None and memory_bytes > capacity.memory_bytes:
        raise UsageError(
            f"--infra-memory-budget: {format_size(memory_bytes)} is more than the engine has "
            f"({format_size(capacity.memory_bytes)}); memory cannot be overcommitted"
        )
    return Budget(
        default.memory_bytes if memory_bytes is None else memory_bytes,
        default.cpu_cores if cpu_cores is None else cpu_cores,
    )


def ceiling_bytes(budget: Budget, capacity: Capacity) -> int:
    """Return the memory that all trials of a run together may really use.

    Guarantees fit the budget, kill thresholds together may not. So the ceiling is what the engine
    can give, whatever smaller budget was chosen for reservations.
    """
    return max(budget.memory_bytes, default_budget(capacity).memory_bytes)


def request_for(
    allocation: Allocation, budget: Budget, *, admit: Admit = "guarantee", label: str = ""
) -> Request:
    """Return what a trial reserves.

    With `admit="limit"` that is its kill threshold and quota; an uncapped memory threshold takes
    the whole memory budget, so that such a trial runs alone, and an uncapped CPU all its cores.
    What the trial's other sandboxes need comes on top.
    """
    if admit == "guarantee":
        return _with_others(
            allocation, allocation.memory_guarantee_bytes, allocation.cpu_guarantee_cores, label
        )
    memory, cores = allocation.limits
    if allocation.cpu_guarantee_cores is not None and cores is None:
        # All there is already; what the others need of it is not there twice.
        allocation, cores = replace(allocation, beside_cpu_cores=0.0), budget.cpu_cores
    if memory is None:
        allocation, memory = replace(allocation, beside_memory_bytes=0), budget.memory_bytes
    return _with_others(allocation, max(allocation.memory_guarantee_bytes, memory), cores, label)


def _with_others(
    allocation: Allocation, memory_bytes: int, cores: float | None, label: str
) -> Request:
    beside = allocation.beside_cpu_cores
    return Request(
        memory_bytes + allocation.beside_memory_bytes,
        (cores or 0.0) + beside if beside else cores,
        label,
    )


def check_guarantees(
    allocations: Mapping[str, Iterable[Allocation]], budget: Budget, *, admit: Admit = "guarantee"
) -> None:
    """Refuse what could never be admitted, before anything runs.

    `allocations` are the effective ones by task name.

    Raises:
        UsageError: one line per task, of many one per kind (`errors.listing`), with its figure, the
            budget and what to do.
    """
    errors = []
    for task, own in allocations.items():
        requests = {request_for(item, budget, admit=admit) for item in own}
        misfits = [item for item in requests if not budget.can_ever_hold(item)]
        if misfits:
            worst = max(misfits, key=lambda item: (item.memory_bytes, item.microcores))
            errors.append(f"task {task}: {misfit(worst, budget, admit)}")
    if errors:
        raise UsageError(listing(errors))


def misfit(request: Request, budget: Budget, admit: Admit = "guarantee") -> str:
    """Return why a request never fits a budget, and what to do."""
    if request.memory_bytes > budget.memory_bytes:
        name = "guarantee" if admit == "guarantee" else "kill threshold"
        return (
            f"{name} {format_size(request.memory_bytes)} never fits the memory budget of "
            f"{format_size(budget.memory_bytes)}; leave the task out, or raise "
            "--infra-memory-budget up to what the engine has"
        )
    name = "CPU guarantee" if admit == "guarantee" else "CPU limit"
    return (
        f"{name} {format_cores(request.cpu_cores)} never fits the CPU budget of "
        f"{format_cores(budget.cpu_cores)}; leave the task out, or overcommit with "
        "--infra-cpu-budget"
    )
