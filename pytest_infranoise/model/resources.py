"""What a task asks for, how a parameter set scales it, and what a trial is given."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Self

from pytest_infranoise.errors import UsageError
from pytest_infranoise.units import format_cores, format_size

UNCAPPED = "uncapped"
CONTROL_SUFFIX = "-aa"


@dataclass(frozen=True, slots=True)
class Multiplier:
    """A factor on the declared spec, exact; `factor` None means uncapped."""

    factor: Fraction | None

    @classmethod
    def parse(cls, text: str, *, where: str) -> Self:
        """Read `1`, `1.5`, `3x`, `0.25` or `uncapped`; anything else is a `UsageError`."""
        word = text.strip().lower()
        if word == UNCAPPED:
            return cls(None)
        match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)x?", word, re.ASCII)
        factor = Fraction(match[1]) if match else Fraction(0)
        if factor <= 0:
            raise UsageError(
                f"{where}: {text.strip()!r} is not a multiplier; write a number above zero "
                f"such as 1, 1.5 or 0.25, or the word {UNCAPPED}"
            )
        return cls(factor)

    @property
    def is_uncapped(self) -> bool:
        """Whether this multiplier removes the limit."""
        return self.factor is None

    @property
    def sort_key(self) -> tuple[bool, Fraction]:
        """Orders multipliers by size, uncapped last."""
        return (self.factor is None, self.factor or Fraction(0))

    def scale(self, value: float) -> float | None:
        """Return `value` times the factor; None when uncapped."""
        return None if self.factor is None else float(Fraction(value) * self.factor)

    def __str__(self) -> str:
        if self.factor is None:
            return UNCAPPED
        return f"{float(self.factor):.6f}".rstrip("0").rstrip(".") + "x"


ONE = Multiplier(Fraction(1))


def parse_multipliers(text: str, *, where: str) -> tuple[Multiplier, ...]:
    """Read a comma-separated list; an empty entry or a repeated multiplier is a `UsageError`."""
    multipliers = tuple(Multiplier.parse(word, where=where) for word in text.split(","))
    for position, multiplier in enumerate(multipliers):
        if multiplier in multipliers[:position]:
            raise UsageError(f"{where}: {multiplier} is listed twice; name each multiplier once")
    return multipliers


@dataclass(frozen=True, slots=True)
class ParameterSet:
    """One resource configuration of a study.

    `id` is how reports and item ids call it: `3x` and `uncapped` where memory and CPU move
    together, `mem5x-cpu1x` (and `mem5x-cpu1x-time2x`) where they vary on their own.
    """

    id: str
    memory: Multiplier
    cpu: Multiplier
    timeout: Multiplier = ONE

    @classmethod
    def joint(cls, multiplier: Multiplier) -> Self:
        """Scale memory and CPU together."""
        return cls(str(multiplier), multiplier, multiplier)

    @property
    def is_declared(self) -> bool:
        """Whether this is 1x in every dimension: the task as its author declared it."""
        return self.memory == self.cpu == self.timeout == ONE

    @property
    def sort_key(self) -> tuple[tuple[bool, Fraction], ...]:
        """Orders parameter sets from the tightest to uncapped."""
        return (self.memory.sort_key, self.cpu.sort_key, self.timeout.sort_key)


def joint_sets(multipliers: Iterable[Multiplier]) -> tuple[ParameterSet, ...]:
    """Return one parameter set per multiplier, memory and CPU together."""
    return tuple(ParameterSet.joint(multiplier) for multiplier in multipliers)


def crossed_sets(
    memory: Sequence[Multiplier] | None,
    cpu: Sequence[Multiplier] | None,
    timeout: Sequence[Multiplier] | None,
) -> tuple[ParameterSet, ...]:
    """Return the cross product of the given dimensions; one that is None stays at 1x."""
    sets = []
    for mem, cores, time in product(memory or (ONE,), cpu or (ONE,), timeout or (ONE,)):
        suffix = "" if timeout is None else f"-time{time}"
        sets.append(ParameterSet(f"mem{mem}-cpu{cores}{suffix}", mem, cores, time))
    return tuple(sets)


def baseline_of(sets: Sequence[ParameterSet]) -> ParameterSet:
    """Return the set that the others are compared with: 1x if present, else the tightest."""
    declared = [item for item in sets if item.is_declared]
    return declared[0] if declared else min(sets, key=lambda item: item.sort_key)


def with_control(sets: Sequence[ParameterSet]) -> tuple[ParameterSet, ...]:
    """Return the sets with the baseline a second time under another id: an A/A control.

    The control stands right behind the baseline, so that `baseline_of` still chooses the original.
    """
    baseline = baseline_of(sets)
    place = sets.index(baseline) + 1
    control = replace(baseline, id=baseline.id + CONTROL_SUFFIX)
    return (*sets[:place], control, *sets[place:])


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """What a task declares: its guaranteed allocation and its kill threshold at 1x.

    Most tasks declare one number, which is both. `cpu_*` None means that the task says nothing
    about CPU: it has no CPU guarantee and no quota in any parameter set. `beside_*` is what has to
    be reserved for other sandboxes of a trial (helper services, a separate verifier); no parameter
    set scales it.
    """

    memory_guarantee_bytes: int
    memory_limit_bytes: int
    cpu_guarantee_cores: float | None = None
    cpu_limit_cores: float | None = None
    beside_memory_bytes: int = 0
    beside_cpu_cores: float = 0.0

    @classmethod
    def declared(cls, memory_bytes: int, cpu_cores: float | None) -> Self:
        """One declared number per resource: both guarantee and kill threshold."""
        return cls(memory_bytes, memory_bytes, cpu_cores, cpu_cores)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one trial gets: the guarantee that is reserved and the threshold that is enforced.

    A limit of None is uncapped. `notes` say where the engine's own bounds changed a request.
    `beside_*` is reserved for the trial's other sandboxes, on top of its own guarantee.
    """

    memory_guarantee_bytes: int
    memory_limit_bytes: int | None
    cpu_guarantee_cores: float | None
    cpu_limit_cores: float | None
    notes: tuple[str, ...] = ()
    beside_memory_bytes: int = 0
    beside_cpu_cores: float = 0.0

    @property
    def memory_reservation_bytes(self) -> int:
        """The engine's soft reservation: never above the limit (below 1x it is lowered to it)."""
        if self.memory_limit_bytes is None:
            return self.memory_guarantee_bytes
        return min(self.memory_guarantee_bytes, self.memory_limit_bytes)

    @property
    def limits(self) -> tuple[int | None, float | None]:
        """What distinguishes the treatment of two parameter sets of one task."""
        return (self.memory_limit_bytes, self.cpu_limit_cores)


def allocate(spec: ResourceSpec, parameter_set: ParameterSet) -> Allocation:
    """Return what `parameter_set` requests for a task: the guarantee stays, the limit scales.

    A limit above 1x never falls below the guarantee; a fraction below 1x may, on purpose.
    """
    memory = parameter_set.memory.scale(spec.memory_limit_bytes)
    cores = spec.cpu_limit_cores
    return Allocation(
        memory_guarantee_bytes=spec.memory_guarantee_bytes,
        memory_limit_bytes=None if memory is None else max(1, int(memory)),
        cpu_guarantee_cores=spec.cpu_guarantee_cores,
        cpu_limit_cores=None if cores is None else parameter_set.cpu.scale(cores),
        beside_memory_bytes=spec.beside_memory_bytes,
        beside_cpu_cores=spec.beside_cpu_cores,
    )


@dataclass(frozen=True, slots=True)
class Capacity:
    """What an engine can give at all, and the smallest limits that it accepts."""

    memory_bytes: int
    cpu_cores: float
    minimum_memory_bytes: int = 1
    minimum_cpu_cores: float = 0.01


def fit(allocation: Allocation, capacity: Capacity, *, clamp: bool, where: str) -> Allocation:
    """Return the effective allocation on an engine of this capacity.

    CPU above the engine's cores is clamped with a note, since no more than all cores can be had.
    A memory threshold outside what the engine can enforce changes the treatment, so it is a
    `UsageError` (naming `where`, the task and parameter set) unless `clamp` accepts it.
    """
    notes = list(allocation.notes)
    cores = allocation.cpu_limit_cores
    if cores is not None:
        bounded = min(max(cores, capacity.minimum_cpu_cores), capacity.cpu_cores)
        if bounded != cores:
            notes.append(f"cpu limit {format_cores(cores)} clamped to {format_cores(bounded)}")
            cores = bounded
    memory = allocation.memory_limit_bytes
    if memory is not None:
        bounded_bytes = min(max(memory, capacity.minimum_memory_bytes), capacity.memory_bytes)
        if bounded_bytes != memory:
            if not clamp:
                bound = "at most" if bounded_bytes < memory else "at least"
                raise UsageError(
                    f"{where}: kill threshold {format_size(memory)}, but the engine enforces "
                    f"{bound} {format_size(bounded_bytes)}; drop this parameter set or accept the "
                    "bound with --infra-clamp"
                )
            notes.append(
                f"memory limit {format_size(memory)} clamped to {format_size(bounded_bytes)}"
            )
            memory = bounded_bytes
    return replace(allocation, memory_limit_bytes=memory, cpu_limit_cores=cores, notes=tuple(notes))
