"""What a request waits for: who holds what, in one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_infranoise.admission.budget import Budget, Request
from pytest_infranoise.admission.entry import OPEN, WAITING, Entry
from pytest_infranoise.units import format_cores, format_size

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds shares; `name` is what it said of itself, None for nothing."""

    pid: int
    name: str | None
    grants: int
    memory_bytes: int
    cpu_cores: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that has waited for some seconds, with `ahead` others before it in the queue."""

    request: Request
    seconds: float
    ahead: int
    holders: tuple[Holder, ...]

    def words(self, budget: Budget, own_name: str | None) -> str:
        """Return one sentence: who waits for what, and who holds it."""
        wanted = _share(self.request.memory_bytes, self.request.cpu_cores)
        all_of = _share(budget.memory_bytes, budget.cpu_cores)
        held = [_holder_words(item, own_name) for item in self.holders[:_NAMED]]
        if len(self.holders) > _NAMED:
            held.append(f"{len(self.holders) - _NAMED} other processes hold the rest")
        before = f"; {self.ahead} before it in the queue" if self.ahead else ""
        return (
            f"{self.request.label or 'a trial'} has waited {self.seconds:.0f} s for {wanted} of "
            f"{all_of}: {', '.join(held) or 'nobody holds any'}{before}"
        )


def waiting_of(
    request: Request,
    nonce: str,
    seconds: float,
    entries: Sequence[Entry],
    names: Mapping[int, str | None],
) -> Waiting:
    """Return what a request waits for, as the ledger's entries show it; `names` are by pid."""
    ahead, by_pid = 0, dict[int, list[Entry]]()
    for entry in entries:
        if entry.state == OPEN:
            by_pid.setdefault(entry.pid, []).append(entry)
    for entry in (item for item in entries if item.state == WAITING):
        if entry.nonce == nonce:
            break
        ahead += 1
    holders = [
        Holder(
            pid,
            names.get(pid),
            len(own),
            sum(item.memory_bytes for item in own),
            sum(item.microcores for item in own) / 1e6,
        )
        for pid, own in by_pid.items()
    ]
    holders.sort(key=lambda item: (-item.memory_bytes, -item.cpu_cores, item.pid))
    return Waiting(request, seconds, ahead, tuple(holders))


def _holder_words(holder: Holder, own_name: str | None) -> str:
    name = holder.name or "another run"
    if own_name is not None and holder.name == own_name:
        name = "this run"
    share = _share(holder.memory_bytes, holder.cpu_cores)
    trials = "1 trial" if holder.grants == 1 else f"{holder.grants} trials"
    return f"{name} (pid {holder.pid}) holds {share} in {trials}"


def _share(memory_bytes: int, cpu_cores: float | None) -> str:
    if not cpu_cores:
        return format_size(memory_bytes)
    return f"{format_size(memory_bytes)} and {format_cores(cpu_cores)}"
