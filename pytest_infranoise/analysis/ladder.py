"""The order of the parameter sets: which one the others are compared with, and what scales."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import (
    ONE,
    UNCAPPED,
    Multiplier,
    ParameterSet,
    baseline_of,
)

_CROSSED_ID = re.compile(r"mem(?P<memory>.+?)-cpu(?P<cpu>.+?)(?:-time(?P<timeout>.+))?")
_NAMES_ONLY = "the names of these sets tell no multiplier, so no threshold can be named"
_DIMENSIONS = ("memory", "cpu", "timeout")
JOINT = "memory and CPU"
BY_NAME = "parameter set"
MODERATE_FACTOR = 3
"""The largest multiplier that is declared as the ceiling by default."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The parameter sets of a study in order.

    `steps` are the sets from 1x upwards, ascending, uncapped last: trend and spread use them.
    `above` are those beyond the baseline and `candidates` the finite ones among them. `dimension`
    says in words what scales; where several dimensions vary on their own, `steps` is empty and
    `problem` says why.
    """

    baseline: str
    steps: tuple[str, ...]
    above: tuple[str, ...]
    candidates: tuple[str, ...]
    dimension: str | None
    problem: str | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether the sets above the baseline grow by a known multiplier, one dimension at a time.

        Only then can they be tested from the top down, and a threshold be named.
        """
        return self.dimension not in (None, BY_NAME)

    def default_ceiling(self, sets: Sequence[ParameterSet]) -> str | None:
        """Return the largest multiplier up to `MODERATE_FACTOR`, else the smallest there is."""
        if not self.is_ordered:
            return None
        within = self.largest_up_to(MODERATE_FACTOR, sets)
        return within or next(iter(self.candidates), None)

    def largest_up_to(self, factor: int, sets: Sequence[ParameterSet]) -> str | None:
        """Return the largest finite set above the baseline whose multiplier is <= `factor`."""
        known = {item.id: _factor(item, self.dimension) for item in sets}
        within = [
            name
            for name in self.candidates
            if name in known
            and known[name].factor is not None
            and known[name].sort_key <= Multiplier.parse(str(factor), where="ceiling").sort_key
        ]
        return within[-1] if within else None


def parse_set(name: str) -> ParameterSet | None:
    """Return the parameter set that an id such as `3x` or `mem5x-cpu1x` names, None if none."""
    match = _CROSSED_ID.fullmatch(name)
    try:
        if match is None:
            return ParameterSet(name, *[Multiplier.parse(name, where=name)] * 2)
        memory, cpu = (Multiplier.parse(match[part], where=name) for part in ("memory", "cpu"))
        timeout = (
            ONE if match["timeout"] is None else Multiplier.parse(match["timeout"], where=name)
        )
        return ParameterSet(name, memory, cpu, timeout)
    except UsageError:
        return None


def known_sets(names: Sequence[str], sets: Sequence[ParameterSet]) -> list[ParameterSet]:
    """Return the parameter sets of `names`, as given or read from the id, where possible."""
    given = {item.id: item for item in sets}
    found = (given.get(name) or parse_set(name) for name in names)
    return [item for item in found if item is not None]


def build_ladder(
    names: Sequence[str],
    sets: Sequence[ParameterSet],
    *,
    baseline: str | None,
    dimension: str | None,
) -> Ladder:
    """Order the sets.

    Args:
        names: The ids in the study's order, at least one, the A/A control left out.
        sets: What is known about them (`known_sets`); if that is not all, `names` is the order.
        baseline: The chosen baseline, or None for 1x, else the tightest.
        dimension: memory, cpu or timeout, for a cross product; else None.

    Raises:
        UsageError: The baseline or the dimension is none of the study's.
    """
    if baseline is not None and baseline not in names:
        raise UsageError(
            f"baseline: {baseline!r} is not a parameter set of this study; use one of "
            + ", ".join(names)
        )
    if dimension is not None and dimension not in _DIMENSIONS:
        raise UsageError(f"dimension: {dimension!r} is none of {', '.join(_DIMENSIONS)}")
    if len(sets) < len(names):
        if dimension is not None:
            raise UsageError("dimension: what the sets of this study scale is unknown")
        return _by_appearance(names, baseline or names[0])
    base = next((item for item in sets if item.id == baseline), None) or baseline_of(sets)
    scaled, problem = _what_scales(sets, dimension)
    if scaled is None:
        return Ladder(base.id, (), (), (), None, problem)
    line = [item for item in sets if _others_equal(item, base, scaled)]
    if dimension is not None and len(sets) > 1 and len(line) == 1:
        raise UsageError(_not_alone(sets, dimension))
    line.sort(key=lambda item: _factor(item, scaled).sort_key)
    steps = [item for item in line if not _factor(item, scaled).sort_key < ONE.sort_key]
    base_key = _factor(base, scaled).sort_key
    above = [item for item in steps if _factor(item, scaled).sort_key > base_key]
    return Ladder(
        base.id,
        tuple(item.id for item in steps),
        tuple(item.id for item in above),
        tuple(item.id for item in above if not _factor(item, scaled).is_uncapped),
        scaled,
    )


def _by_appearance(names: Sequence[str], baseline: str) -> Ladder:
    others = [name for name in names if name != baseline]
    # Nothing but the name says that a set has no limit, so it must not be recommended as one.
    others.sort(key=lambda name: name.lower() == UNCAPPED)
    candidates = tuple(name for name in others if name.lower() != UNCAPPED)
    return Ladder(baseline, (baseline, *others), tuple(others), candidates, BY_NAME, _NAMES_ONLY)


def _not_alone(sets: Sequence[ParameterSet], dimension: str) -> str:
    """Say why a chosen dimension leaves nothing to follow, and what there is."""
    name = "CPU" if dimension == "cpu" else dimension
    if len({getattr(item, dimension) for item in sets}) == 1:
        varying = [key for key in _DIMENSIONS if len({getattr(item, key) for item in sets}) > 1]
        others = f"; it has {' and '.join(varying)}" if varying else ""
        return f"dimension: no set of this study scales {name}{others}"
    return (
        f"dimension: no set of this study scales {name} alone; leave the option out, or run the "
        f"study with --infra-{dimension}-multipliers"
    )


def _what_scales(
    sets: Sequence[ParameterSet], dimension: str | None
) -> tuple[str | None, str | None]:
    if dimension is not None:
        return dimension, None
    varying = [name for name in _DIMENSIONS if len({getattr(item, name) for item in sets}) > 1]
    together = all(item.memory == item.cpu for item in sets)
    if len(varying) <= 1:
        only = varying[0] if varying else (JOINT if together else "memory")
        return only, None
    if together and "timeout" not in varying:
        return JOINT, None
    listed = " and ".join(("CPU" if name == "cpu" else name) for name in varying)
    return None, f"{listed} vary on their own; choose one dimension to follow"


def _factor(item: ParameterSet, scaled: str | None) -> Multiplier:
    if scaled in _DIMENSIONS:
        factor: Multiplier = getattr(item, str(scaled))
        return factor
    return item.memory


def _others_equal(item: ParameterSet, base: ParameterSet, scaled: str) -> bool:
    held = [name for name in _DIMENSIONS if name != scaled and scaled != JOINT]
    return all(getattr(item, name) == getattr(base, name) for name in held)
