"""The sessions of a study: it may be stopped, or killed, and go on at another time of day."""

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_infranoise.study.sameness import completed

_PLACE = (
    "host", "software", "ini", "backend", "admission", "workers", "load_at_start", "load_at_end",
)  # fmt: skip
"""What the manifest says of the first session; a later one keeps what differs from it."""


def sessions_of(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a study's sessions, oldest first; one where a manifest of old names none."""
    sessions = manifest.get("sessions")
    if isinstance(sessions, list) and sessions:
        return [dict(item) for item in sessions]
    names = ("started_at", "ended_at", "command_line")
    return [{name: manifest.get(name) for name in names}]


def continued(
    before: Mapping[str, Any], now: Mapping[str, Any], changed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the manifest of a study that goes on.

    `before` is its manifest so far, `now` what a new study would write. The study keeps what it
    began with; tasks and parameter sets that are new are added, and the new session keeps where it
    ran and `changed`, what the user accepted.
    """
    session = {**sessions_of(now)[-1], "changed": list(changed)}
    session |= {name: now[name] for name in _PLACE if now.get(name) != before.get(name)}
    if changed:
        session |= {name: now.get(name) for name in ("agent", "enforcement")}
    samples = before.get("samples")
    is_extended = isinstance(samples, int) and now["samples"] > samples
    return {
        **before,
        "ended_at": None,
        "samples": now["samples"] if is_extended else samples,
        "extended_from": [*before.get("extended_from", ()), *([samples] if is_extended else ())],
        "parameter_sets": _added(before, now, "parameter_sets", "id"),
        "tasks": _known_tasks(before, now),
        "oracle_screen": now.get("oracle_screen", ()),
        "excluded_tasks": now.get("excluded_tasks", ()),
        "disclosed": {**before.get("disclosed", {}), **now.get("disclosed", {})},
        "sessions": [*sessions_of(before), session],
    }


def ended(manifest: Mapping[str, Any], ended_at: str) -> list[dict[str, Any]]:
    """Return the sessions of a study whose last one has ended."""
    sessions = sessions_of(manifest)
    sessions[-1]["ended_at"] = ended_at
    return sessions


def accepted_changes(manifest: Mapping[str, Any]) -> list[str]:
    """Return what changed between the sessions of a study and was accepted by its user."""
    found = (item for session in sessions_of(manifest) for item in session.get("changed") or ())
    return list(dict.fromkeys(str(item) for item in found))


def missing_shards(shards: Mapping[str, Any] | None) -> tuple[int, ...]:
    """Return the numbers of the shards that a merged study lacks; `shards` is of its manifest."""
    if not shards:
        return ()
    return tuple(sorted(set(range(1, shards["of"] + 1)) - set(shards["numbers"])))


def _known_tasks(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the study's tasks as it knew them, with what a session learns that runs them."""
    own = {task["name"]: task for task in now["tasks"]}
    tasks = _added(before, now, "tasks", "name")
    return [completed([task, own.get(task["name"], task)])[0] for task in tasks]


def _added(
    before: Mapping[str, Any], now: Mapping[str, Any], name: str, key: str
) -> list[dict[str, Any]]:
    known = {item[key] for item in before[name]}
    return [*before[name], *(item for item in now[name] if item[key] not in known)]
