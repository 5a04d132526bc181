"""Two configurations held side by side, field by field: nothing that differs goes unsaid.

Every field of a manifest is read, also one that this module does not know; what is not named here
must be disclosed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pytest_infranoise.model.enforcement import method_differences
from pytest_infranoise.units import format_size

UNKNOWN = "unknown"
REFERENCE_AGENTS = ("oracle", "nop")


class Weight(StrEnum):
    """What a difference between two configurations means for their comparison."""

    INCOMPARABLE = "makes incomparable"
    DISCLOSE = "must be disclosed"
    HARMLESS = "harmless"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in two configurations, in words; `unknown` where nobody said."""

    field: str
    first: str
    second: str
    weight: Weight

    @property
    def is_agent(self) -> bool:
        """Whether it is the agent, which is what most comparisons are about."""
        return self.field.startswith("agent ")


_SKIPPED = (
    "schema_version", "study", "started_at", "ended_at", "command_line", "sessions", "parts",
    "load_at_start", "load_at_end", "planned_trials", "unselected_trials", "decided_at_look",
    "extended_from", "usage",
    "tasks", "parameter_sets", "enforcement", "options", "source", "changed_tasks",
)  # fmt: skip
"""What is no configuration of its own, or is compared by a rule of its own."""

_HARMLESS = (
    "seed", "shard", "shards", "local_timezone", "software.python", "software.dependencies",
    "software.pytest_plugins", "ini",
    "sources_git", "samples", "baseline", "control", "ceiling", "equal_sets", "backend.engine_id",
    "backend.details.endpoint", "backend.details.base",
    "backend.details.storage_folder", "backend.notes", "notes", "host.system",
)  # fmt: skip
_INCOMPARABLE = ("pass_threshold",)

_ESSENTIAL = (
    "agent.name", "backend.engine", "backend.cgroup_version", "workers", "order",
    "host.cpu_model", "host.kernel",
)  # fmt: skip
"""What a comparison rests on: named also where neither side says it."""
_LOAD, _BUSY = "load at start per cpu", 0.5
ENDPOINT = "disclosed.inference-endpoint"
OUTSIDER_FIELDS = (
    "guarantee", "kill threshold", "enforcement", "oom policy", "swap", "timeouts",
    "agent location", "concurrency", "network", "inference endpoint",
)  # fmt: skip
"""What is unknown of two published percentages."""


def unknown_fields() -> list[Difference]:
    """Return what nobody knows of two published scores."""
    return [Difference(name, UNKNOWN, UNKNOWN, Weight.DISCLOSE) for name in OUTSIDER_FIELDS]


def group(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a group of fields, empty where there is none; manifests come from anywhere."""
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def configuration(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are one value per study, by dotted name."""
    fields = dict(_flat(manifest))
    fields[_LOAD] = _load(manifest)
    return {name: value for name, value in fields.items() if not _has_prefix(name, _SKIPPED)}


def field_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Return how two results of `configuration` differ, and what neither of them knows."""
    essential = [*_ESSENTIAL]
    if not {first.get("agent.name"), second.get("agent.name")} & set(REFERENCE_AGENTS):
        essential.append(ENDPOINT)
    found = []
    for name in dict.fromkeys((*essential, *first, *second)):
        ours, theirs = (side.get(name, UNKNOWN) for side in (first, second))
        if name in essential:
            ours, theirs = (UNKNOWN if value is None else value for value in (ours, theirs))
        if _same(name, ours, theirs) and not (name in essential and ours == UNKNOWN):
            continue
        words = (_word(name, ours), _word(name, theirs))
        found.append(Difference(_label(name), *words, _weight(name)))
    names = {str(side.get("agent.name")) in REFERENCE_AGENTS for side in (first, second)}
    if len(names) == 2:
        words = (_word("", first.get("agent.name")), _word("", second.get("agent.name")))
        found.append(Difference("reference solution or agent", *words, Weight.INCOMPARABLE))
    return found


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any], pairs: Sequence[tuple[str, str]]
) -> list[Difference]:
    """Return everything in which two manifests differ, gravest first.

    `pairs` are the parameter sets that are held against one another.
    """
    found = [
        *_method(first, second),
        *_sets(first, second, pairs),
        *_tasks(first, second, pairs),
        *field_differences(configuration(first), configuration(second)),
    ]
    return sorted(found, key=lambda item: list(Weight).index(item.weight))


def _method(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for words in method_differences(first, second):
        name, _, values = words.partition(": ")
        ours, _, theirs = values.partition(" and ")
        yield Difference(name, ours, theirs, Weight.INCOMPARABLE)
    presets = [group(side, "enforcement").get("preset") for side in (first, second)]
    if presets[0] != presets[1]:  # what they mean is compared, so the names alone are harmless
        yield Difference(
            "enforcement preset", _word("", presets[0]), _word("", presets[1]), Weight.HARMLESS
        )
    known = [bool(group(side, "backend").get("enforcement")) for side in (first, second)]
    if not all(known):
        ours, theirs = ("known" if item else UNKNOWN for item in known)
        yield Difference("enforcement", ours, theirs, Weight.DISCLOSE)


def _sets(
    first: Mapping[str, Any], second: Mapping[str, Any], pairs: Sequence[tuple[str, str]]
) -> Iterator[Difference]:
    """Compare what each pair of sets multiplies."""
    by_id = [{item["id"]: item for item in side["parameter_sets"]} for side in (first, second)]
    for ours, theirs in pairs:
        one, other = (
            {key: value for key, value in sets.get(name, {}).items() if key != "id"}
            for sets, name in zip(by_id, (ours, theirs), strict=True)
        )
        if one != other:
            is_other_treatment = ours == theirs and one and other
            weight = Weight.INCOMPARABLE if is_other_treatment else Weight.DISCLOSE
            words = (_multipliers(one), _multipliers(other))
            yield Difference(f"multipliers of {_pair(ours, theirs)}", *words, weight)


def _multipliers(values: Mapping[str, Any]) -> str:
    if not values:
        return UNKNOWN
    return ", ".join(
        f"{name.removesuffix('_multiplier')} "
        + ("uncapped" if value is None else f"{_word(name, value)}x")
        for name, value in values.items()
    )


_TASK_WEIGHTS: Mapping[str, Weight] = {
    "digest": Weight.INCOMPARABLE,
    "verifier_timeout_seconds": Weight.INCOMPARABLE,
    "leftovers": Weight.INCOMPARABLE,
    "network": Weight.INCOMPARABLE,
    "agent_timeout_seconds": Weight.HARMLESS,  # what each set makes of it is compared
    "directory": Weight.HARMLESS,
    "notes": Weight.HARMLESS,
}
_REQUESTED = "requested "
"""What a set asked for before the engine's own bounds; what it got is what counts."""
_OF_SETS = ("name", "limits")


def _tasks(
    first: Mapping[str, Any], second: Mapping[str, Any], pairs: Sequence[tuple[str, str]]
) -> Iterator[Difference]:
    ours, theirs = ({task["name"]: task for task in side["tasks"]} for side in (first, second))
    common = [name for name in ours if name in theirs]
    alone = ([n for n in ours if n not in theirs], [n for n in theirs if n not in ours])
    if any(alone):
        weight = Weight.DISCLOSE if common else Weight.INCOMPARABLE
        words = (_counted(alone[0]), _counted(alone[1]))
        yield Difference("tasks that only this side has", *words, weight)
    keys = dict.fromkeys(key for name in common for key in (*ours[name], *theirs[name]))
    for key in (key for key in keys if key not in _OF_SETS):
        weight = _TASK_WEIGHTS.get(key, Weight.DISCLOSE)
        values = [(n, ours[n].get(key, UNKNOWN), theirs[n].get(key, UNKNOWN)) for n in common]
        yield from _of_tasks(_label(key), key, values, weight)
    if common and not any("digest" in ours[name] or "digest" in theirs[name] for name in common):
        yield Difference("content of tasks", UNKNOWN, UNKNOWN, Weight.DISCLOSE)
    for set_a, set_b in pairs:
        yield from _limits(ours, theirs, common, (set_a, set_b))


def _limits(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], common: list[str], pair: tuple[str, str]
) -> Iterator[Difference]:
    """Compare what the tasks were given in one pair of sets."""
    weight = Weight.INCOMPARABLE if pair[0] == pair[1] else Weight.DISCLOSE
    sides = [
        {name: _given(side[name], own) for name in common}
        for side, own in zip((ours, theirs), pair, strict=True)
    ]
    if common and not any(any(side.values()) for side in sides):
        yield Difference(f"limits of {_pair(*pair)}", UNKNOWN, UNKNOWN, Weight.DISCLOSE)
    keys = dict.fromkeys(key for side in sides for given in side.values() for key in given)
    for key in keys:
        values = [(n, *(side[n].get(key, UNKNOWN) for side in sides)) for n in common]
        own = Weight.HARMLESS if key.startswith(_REQUESTED) else weight
        yield from _of_tasks(f"{_label(key)} of {_pair(*pair)}", key, values, own)


def _given(task: Mapping[str, Any], parameter_set: str) -> dict[str, Any]:
    given = group(group(task, "limits"), parameter_set)
    found = {key: value for key, value in group(given, "effective").items() if key != "notes"}
    found |= {f"{_REQUESTED}{key}": item for key, item in group(given, "requested").items()}
    if "agent_timeout_seconds" in given:
        found["agent_timeout_seconds"] = given["agent_timeout_seconds"]
    return found


def _of_tasks(
    label: str, key: str, values: Sequence[tuple[str, Any, Any]], weight: Weight
) -> Iterator[Difference]:
    """Name in how many tasks a fact differs, with the first as the example."""
    moved = [item for item in values if item[1] != item[2]]
    if not moved:
        return
    name, first, second = moved[0]
    if UNKNOWN in (first, second) and weight is Weight.INCOMPARABLE:
        weight = Weight.DISCLOSE
    where = f"{len(moved)} of {len(values)} tasks, as {name}"
    yield Difference(f"task {label} ({where})", _word(key, first), _word(key, second), weight)


def _pair(first: str, second: str) -> str:
    return first if first == second else f"{first} and {second}"


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} ({_named(names)})" if names else "0"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{name}.")
        elif item is not None or not _is_group(name):
            yield name, item


def _is_group(name: str) -> bool:
    """Whether a null stands for a whole group of fields (imported counts have no backend)."""
    return name in ("backend", "admission", "host", "software", "enforcement", "agent")


def _load(manifest: Mapping[str, Any]) -> float | None:
    load = group(manifest, "load_at_start").get("load_average")
    cpus = group(manifest, "host").get("cpu_count")
    try:
        return round(load[0] / cpus, 1) if load and cpus else None
    except (TypeError, LookupError):
        return None


def _same(name: str, first: Any, second: Any) -> bool:
    """Whether two values agree; what one side does not have at all agrees with an empty value."""
    if first == second:
        return True
    if name == _LOAD:  # no two hosts are equally busy; only a busy one counts
        return not any(isinstance(value, float) and value >= _BUSY for value in (first, second))
    blank: tuple[Any, ...] = (None, [], {}, "", UNKNOWN)
    is_blank = first in blank and second in blank
    return is_blank and UNKNOWN in (first, second) and name not in _ESSENTIAL


def _has_prefix(name: str, prefixes: Sequence[str]) -> bool:
    return any(name == item or name.startswith(f"{item}.") for item in prefixes)


def _weight(name: str) -> Weight:
    if _has_prefix(name, _INCOMPARABLE):
        return Weight.INCOMPARABLE
    return Weight.HARMLESS if _has_prefix(name, _HARMLESS) else Weight.DISCLOSE


def _label(name: str) -> str:
    return {"digest": "content"}.get(name, name.replace(".", " ").replace("_", " "))


def _word(name: str, value: Any) -> str:
    """Return a value as people read it; a digest is cut short."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("bytes"):
        return format_size(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_word(key, item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(_word(name, item) for item in value) or "none"
    text = str(value)
    return text[:19] if name.endswith("digest") and len(text) > 40 else text or "none"
