"""Which trials a study has, with which limits, and in which order they run.

The order is made of keys, not of a shuffled list: `TrialOrder.key` is a pure function of the seed
and a trial's own names. Trials that come from different places (task folders, Python tests) can
therefore be sorted into one order, the same in every process, and a selection of trials keeps its
order whatever else is selected.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, combinations
from typing import Literal, NamedTuple

from pytest_infranoise.errors import UsageError, listing
from pytest_infranoise.model.resources import (
    Allocation,
    Capacity,
    ParameterSet,
    allocate,
    fit,
)
from pytest_infranoise.model.task import Task
from pytest_infranoise.units import format_cores, format_size

Order = Literal["interleaved", "sequential", "file"]
OrderKey = tuple[int | str | tuple[int, ...], ...]

Trial = tuple[str, str, int]
"""A trial by its names: task, parameter set id, sample."""


class Place(NamedTuple):
    """Where a trial stands in its study: the number of its block, and its place in the order."""

    block: int
    position: int


UNKNOWN_PLACE = Place(-1, -1)


@dataclass(frozen=True, slots=True)
class TrialAllocation:
    """What one task asks for in one parameter set, and what the engine makes of it."""

    requested: Allocation
    effective: Allocation


Allocations = Mapping[str, Mapping[str, TrialAllocation]]
"""By task name, then by parameter set id."""


@dataclass(frozen=True, slots=True)
class AllocationTable:
    """The limits of every task in every parameter set.

    `equal_sets` are pairs of ids, in the order of the study, whose effective limits and timeouts
    agree in every task: no contrast can be made between them.
    """

    allocations: Allocations
    equal_sets: tuple[tuple[str, str], ...] = ()


def trial_seed(seed: int, task: str, sample: int) -> int:
    """Return the seed of an agent's run: 31 bits, the same in every parameter set."""
    return _number("trial", seed, task, sample) >> 33


def agent_timeout(task: Task, parameter_set: ParameterSet) -> float | None:
    """Return the agent's time in seconds in a parameter set; None is no deadline."""
    if task.agent_timeout_seconds is None:
        return None
    return parameter_set.timeout.scale(task.agent_timeout_seconds)


def allocate_task(
    task: Task, sets: Sequence[ParameterSet], capacity: Capacity, *, clamp: bool
) -> dict[str, TrialAllocation]:
    """Return a task's allocations by parameter set id.

    Raises:
        UsageError: limits that the engine cannot enforce, one line per parameter set.
    """
    found: dict[str, TrialAllocation] = {}
    errors = []
    for parameter_set in sets:
        requested = allocate(task.spec, parameter_set)
        where = f"task {task.name}, parameter set {parameter_set.id}"
        try:
            effective = fit(requested, capacity, clamp=clamp, where=where)
        except UsageError as error:
            errors.append(str(error))
        else:
            found[parameter_set.id] = TrialAllocation(requested, effective)
    _raise_all(errors)
    return found


def effective_allocations(
    tasks: Sequence[Task], sets: Sequence[ParameterSet], capacity: Capacity, *, clamp: bool
) -> AllocationTable:
    """Return the limits of every task and parameter set on an engine of this capacity.

    Raises:
        UsageError: what cannot be enforced, and without `clamp` parameter sets that come out equal
            in every task; each naming task, set and figure (`errors.listing`).
    """
    allocations: dict[str, Mapping[str, TrialAllocation]] = {}
    errors: list[str] = []
    for task in tasks:
        try:
            allocations[task.name] = allocate_task(task, sets, capacity, clamp=clamp)
        except UsageError as error:
            errors.extend(str(error).splitlines())
    _raise_all(errors)
    equal = equal_sets(tasks, sets, allocations, capacity)
    if equal and not clamp:
        _raise_all([_equal_line(pair, tasks[0], allocations) for pair in equal])
    return AllocationTable(allocations, tuple((first.id, second.id) for first, second in equal))


def equal_sets(
    tasks: Sequence[Task],
    sets: Sequence[ParameterSet],
    allocations: Allocations,
    capacity: Capacity,
) -> list[tuple[ParameterSet, ParameterSet]]:
    """Return the pairs of parameter sets that treat every task alike.

    A CPU quota of all the engine's cores limits nothing, so it counts as uncapped. Two sets with
    the same multipliers are a control made on purpose and never reported.
    """
    treatments = {
        item.id: [_treatment(task, item, allocations, capacity) for task in tasks] for item in sets
    }
    return [
        (first, second)
        for first, second in combinations(sets, 2)
        if tasks
        and first.sort_key != second.sort_key
        and treatments[first.id] == treatments[second.id]
    ]


def _treatment(
    task: Task, parameter_set: ParameterSet, allocations: Allocations, capacity: Capacity
) -> tuple[int | None, float | None, float | None]:
    memory, cores = allocations[task.name][parameter_set.id].effective.limits
    if cores is not None and cores >= capacity.cpu_cores:
        cores = None
    return (memory, cores, agent_timeout(task, parameter_set))


def _equal_line(
    pair: tuple[ParameterSet, ParameterSet], example: Task, allocations: Allocations
) -> str:
    first, second = pair
    memory, cores = allocations[example.name][second.id].effective.limits
    seconds = agent_timeout(example, second)
    timeout = "no timeout" if seconds is None else f"timeout {seconds:g} s"
    return (
        f"parameter sets {first.id} and {second.id} are the same for every task here (task "
        f"{example.name}: memory {format_size(memory)}, {_cores(cores)}, {timeout}); drop one of "
        "them or accept it with --infra-clamp"
    )


def _cores(cores: float | None) -> str:
    return "cpu uncapped" if cores is None else format_cores(cores)


def _raise_all(errors: Sequence[str]) -> None:
    if errors:
        raise UsageError(listing(errors))


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """The order of a study's trials, a pure function of its seed.

    `interleaved`: rounds by sample; within a round the tasks are shuffled, and all parameter sets
    of a task run one after another (a block), shuffled too. `sequential`: one parameter set after
    another, `sets` giving their ids in order. `extended_from` are the numbers of samples, rising,
    after which the study was made longer: what was added later comes later, in any order. `ranks`
    are the places of tasks that are not shuffled, because files (`file`) or a suite give their
    order. Tests are shuffled by file, then by class, then each, so that what their fixtures of
    wider scope set up serves all of a round.
    """

    seed: int
    sets: tuple[str, ...]
    order: Order = "interleaved"
    extended_from: tuple[int, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)

    def key(self, task: str, parameter_set: str, sample: int) -> OrderKey:
        """Return what a trial is sorted by; keys of different trials always differ."""
        block = self.block_key(task, sample)
        if self.order == "sequential":
            extension = bisect_left(self.extended_from, sample)
            return (extension, self.sets.index(parameter_set), *block)
        return (*block, _number("set", self.seed, task, sample, parameter_set), parameter_set)

    def block_key(self, task: str, sample: int) -> tuple[int, tuple[int, ...], str]:
        """Return what blocks are sorted and numbered by, in any order."""
        rank = self.ranks.get(task)
        place = _block_place(self.seed, task, sample) if rank is None else (rank,)
        return (sample, place, task)

    def places(self, trials: Iterable[Trial]) -> dict[Trial, Place]:
        """Return each trial's place, in order; blocks and positions are numbered from 0."""
        ordered = sorted(trials, key=lambda trial: self.key(*trial))
        pairs = {(task, sample) for task, _, sample in ordered}
        blocks = {
            pair: number
            for number, pair in enumerate(sorted(pairs, key=lambda pair: self.block_key(*pair)))
        }
        return {
            trial: Place(blocks[trial[0], trial[2]], position)
            for position, trial in enumerate(ordered)
        }


@lru_cache(maxsize=100_000)
def _block_place(seed: int, task: str, sample: int) -> tuple[int, ...]:
    """Return a number for each part of a task's name: a test's file, class and function."""
    names = accumulate(task.split("::"), "{}::{}".format)
    return tuple(_number("block", seed, name, sample) for name in names)


def _number(purpose: str, *parts: int | str) -> int:
    """Return 64 bits that depend on the parts only: not on the process, platform or version."""
    text = "\x00".join((purpose, *map(str, parts)))
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
