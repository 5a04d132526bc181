"""Whether two manifests describe one study: same tasks, sets, agent, enforcement and order.

Resuming and merging rely on it. Where a study ran (host, engine version, load) is no part of it; it
is kept with every session and every part.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_infranoise.model.enforcement import method_differences
from pytest_infranoise.study.configuration import group

BUILT_HERE = "pytest-infranoise/"
"""Images of this name are built from the task's files, whose digest is compared."""

_TASK_FACTS: Mapping[str, str] = {
    "digest": "content",
    "spec": "declared resources",
    "limits": "limits",
    "agent_timeout_seconds": "agent's time",
    "verifier_timeout_seconds": "verifier's time",
    "leftovers": "leftovers",
    "network": "network",
}
LEARNT = ("image", "limits")
"""What a session knows only of tasks that it selected: nothing is said of the others."""
_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two manifests; `first` and `second` are empty where `what` says all.

    `is_fixed` marks what the order of the trials stands on: no study goes on without it.
    """

    what: str
    first: str = ""
    second: str = ""
    is_fixed: bool = False

    def words(self, first: str, second: str) -> str:
        """Return the change in words; `first` and `second` say which side is which."""
        if not (self.first or self.second):
            return self.what
        return f"{self.what}: {self.first} {first}, {self.second} {second}"


def changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Change]:
    """Return what makes two manifests describe different studies; empty for one study.

    Tests of an existing suite are compared where both manifests know them.
    """
    found = [*_values(first, second), *_tasks(first, second)]
    found += [Change(words) for words in method_differences(first, second)]
    return found


def _values(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Change]:
    """Compare what is one value per study."""
    readers: tuple[tuple[str, Callable[[Mapping[str, Any]], Any], bool], ...] = (
        ("seed", lambda data: data.get("seed"), True),
        ("order", lambda data: data.get("order"), True),
        ("planned looks", lambda data: data.get("planned_looks") or None, True),
        ("parameter sets", _sets, False),
        ("A/A control", lambda data: data.get("control"), False),
        ("agent", lambda data: data.get("agent"), False),
        ("reward that passes", lambda data: data.get("pass_threshold", 1.0), False),
        ("passed variables", lambda data: data.get("passed_variables") or None, False),
        ("backend", lambda data: group(data, "backend").get("backend"), False),
        ("cgroup version", lambda data: group(data, "backend").get("cgroup_version"), False),
        ("admission", lambda data: group(data, "admission").get("admit"), False),
    )
    for what, read, is_fixed in readers:
        ours, theirs = read(first), read(second)
        if ours != theirs:
            yield Change(what, word(ours), word(theirs), is_fixed)


def _sets(manifest: Mapping[str, Any]) -> list[list[Any]]:
    names = ("id", "memory_multiplier", "cpu_multiplier", "timeout_multiplier")
    return [[item.get(name) for name in names] for item in manifest["parameter_sets"]]


def _tasks(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Change]:
    """Compare the tasks: which there are, what is in them, what they were given."""
    ours, theirs = (
        {str(task["name"]): task for task in manifest["tasks"]} for manifest in (first, second)
    )
    folders = [[name for name in one if one[name].get("directory")] for one in (ours, theirs)]
    if gone := [name for name in folders[0] if name not in theirs]:
        yield Change(f"tasks that are missing: {_named(gone)}")
    if new := [name for name in folders[1] if name not in ours]:
        yield Change(f"tasks that are new: {_named(new)}")
    common = [name for name in ours if name in theirs]
    for key, what in _TASK_FACTS.items():
        known = [name for name in common if key not in LEARNT or _both(ours, theirs, name, key)]
        if moved := [name for name in known if ours[name].get(key) != theirs[name].get(key)]:
            yield Change(f"{what} of {_named(moved)}")
    known = [name for name in common if _both(ours, theirs, name, "image")]
    if moved := [name for name in known if _image(ours[name]) != _image(theirs[name])]:
        yield Change(f"image of {_named(moved)}")


def _both(ours: Mapping[str, Any], theirs: Mapping[str, Any], name: str, key: str) -> bool:
    return bool(ours[name].get(key) and theirs[name].get(key))


def completed(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return several manifests' words on one task, each with what only the others have learnt."""
    learnt = {
        key: next((task[key] for task in tasks if task.get(key)), tasks[0].get(key))
        for key in LEARNT
    }
    return [
        {**task, **{key: value for key, value in learnt.items() if key in task and not task[key]}}
        for task in tasks
    ]


def _image(task: Mapping[str, Any]) -> Any:
    image = group(task, "image")
    built = str(image.get("reference", "")).startswith(BUILT_HERE)
    return None if built else (image.get("reference"), image.get("digest"))


def _named(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NAMES])
    rest = len(names) - _SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def word(value: Any) -> str:
    """Return a value of a manifest as people read it."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value or "''"
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        rest = {key: item for key, item in value.items() if key not in ("name", "command") and item}
        return f"{value['name']!r}" + (f" {json.dumps(rest)}" if rest else "")
    if isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        return " ".join(str(item[0]) for item in value)  # parameter sets by their ids
    return json.dumps(value)
