"""The disclosure card: what a leaderboard entry says of its infrastructure, in ten lines."""

import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from pytest_infranoise.agents.base import IN_SANDBOX, ON_HOST
from pytest_infranoise.analysis import Analysis
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT, enforcement_words
from pytest_infranoise.report.model import Line, one_line
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.study.configuration import REFERENCE_AGENTS, configuration, group
from pytest_infranoise.units import format_cores, format_size

KIND = "pytest-infranoise disclosure card"
SCHEMA_VERSION = 1
UNKNOWN = "unknown"
NOT_GIVEN = "not given (--infra-note inference-endpoint=...)"

_LOCATIONS = {
    IN_SANDBOX: "in the sandbox, within the trial's limits",
    ON_HOST: "on the host, outside of the limits; its commands in the sandbox",
}

_PRIVATE = (
    "backend.engine_id",
    "backend.details.endpoint",
    "backend.details.base",
    "backend.details.storage_folder",
    "sources_git",
    "notes",
)
"""Fields that say nothing to others, or too much of this machine."""


def card_lines(view: StudyView) -> list[Line]:
    """Return the card as ten lines under a heading."""
    lines = card_text(view.manifest)
    width = max(map(len, lines))
    return [
        Line("disclosure card", "bold"),
        *(Line(f"  {label:<{width}}  {one_line(text)}") for label, text in lines.items()),
    ]


def card_text(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the ten lines by their labels."""
    return {
        "guarantee": _guarantee(manifest),
        "kill threshold": _threshold(manifest),
        "swap, oom policy": _kills(manifest),
        "enforcement": _enforcement(manifest),
        "visible cpus": _visible(manifest),
        "timeouts": _timeouts(manifest),
        "agent location": _location(manifest),
        "concurrency": _concurrency(manifest),
        "network": _network(manifest),
        "inference endpoint": _endpoint(manifest),
    }


def make_card(view: StudyView) -> dict[str, Any]:
    """Return the card as JSON: the ten lines, what came out, and the configuration by field."""
    manifest, analysis = view.manifest, view.analysis
    fields = configuration(manifest)
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "study": manifest.get("study"),
        "card": card_text(manifest),
        "tasks": {"number": analysis.n_tasks, "digest": _tasks_digest(manifest)},
        "samples": list(analysis.samples),
        "parameter_sets": [_set(item, manifest) for item in analysis.sets],
        "noise_band": _band(analysis),
        "configuration": {
            name: value
            for name, value in fields.items()
            if not name.startswith(_PRIVATE) and name != "load at start per cpu"
        },
    }


def read_card(path: Path) -> dict[str, Any]:
    """Read a card that `make_card` made.

    Raises:
        UsageError: it is none.
    """
    try:
        card = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if not isinstance(card, dict) or card.get("kind") != KIND:
        raise UsageError(f"{path}: neither a study nor a disclosure card")
    if card.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{path}: schema_version {card.get('schema_version')!r} is not known here; update "
            "pytest-infranoise to read this card"
        )
    try:
        _check(card)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(f"{path}: not a card as this program writes it: {error}") from error
    return card


def _check(card: Mapping[str, Any]) -> None:
    """Touch what the comparison of cards relies on."""
    for item in card["parameter_sets"]:
        if not isinstance(item["id"], str):
            raise TypeError("a parameter set's id is not text")
        if item["success"] is not None and not 0 <= item["success"] <= 1:
            raise ValueError("success is not a proportion")
    if int(card["tasks"]["number"]) < 0 or int(card["samples"][0]) < 0:
        raise ValueError("numbers of tasks and samples must not be negative")
    dict(card["configuration"])


def _set(item: Any, manifest: Mapping[str, Any]) -> dict[str, Any]:
    known = {entry["id"]: entry for entry in manifest["parameter_sets"]}
    rate = item.success
    return {
        **known.get(item.id, {"id": item.id}),
        "tasks": item.n_tasks,
        "trials": item.n_trials,
        "success": None if rate is None else rate.macro,
        "success_ci95": None if rate is None else list(rate.ci95),
        "infra_error_rate": None if item.infra_error is None else item.infra_error.macro,
        "limits_digest": _limits_digest(manifest, item.id),
    }


def _band(analysis: Analysis) -> dict[str, Any] | None:
    band = analysis.noise_band.declared
    if band is None or band.contrast.difference is None or analysis.settings.fit_only:
        return None
    interval = band.contrast.ci95
    return {
        "floor": band.floor,
        "ceiling": band.ceiling,
        "difference": band.contrast.difference,
        "ci95": None if interval is None else list(interval),
    }


def _tasks_digest(manifest: Mapping[str, Any]) -> str | None:
    """Return one digest of all tasks' names and contents; None where a content is unknown."""
    tasks = sorted((str(task["name"]), task.get("digest")) for task in manifest["tasks"])
    if not tasks or any(digest is None for _, digest in tasks):
        return None
    return sha256(json.dumps(tasks).encode()).hexdigest()


def _limits_digest(manifest: Mapping[str, Any], parameter_set: str) -> str | None:
    """Return one digest of what every task was given in a set; None where that is unknown."""
    given = {
        str(task["name"]): group(task, "limits").get(parameter_set) for task in manifest["tasks"]
    }
    if not given or None in given.values():
        return None
    return sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()


# --- the lines ---


def _given(manifest: Mapping[str, Any], parameter_set: str, key: str) -> list[Any]:
    """Return what the tasks were given in a set; empty where nothing is known."""
    found = []
    for task in manifest["tasks"]:
        effective = group(group(group(task, "limits"), parameter_set), "effective")
        if key in effective:
            found.append(effective[key])
    return found


def _range(values: Iterable[Any], write: Callable[[Any], str], none: str) -> str:
    """Return `32 MiB to 2 GiB`, or what None means where it is among the values."""
    known = [value for value in values if value is None or _is_number(value)]
    numbers = [value for value in known if value is not None]
    words = [none] if len(numbers) < len(known) else []
    if numbers:
        low, high = write(min(numbers)), write(max(numbers))
        words.insert(0, low if low == high else f"{low} to {high}")
    return " or ".join(words) or UNKNOWN


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _per_set(manifest: Mapping[str, Any], write: Callable[[str], str]) -> str:
    """Return `1x, 3x: text; uncapped: text`, sets with the same text together."""
    texts: dict[str, list[str]] = {}
    for item in manifest["parameter_sets"]:
        texts.setdefault(write(str(item["id"])), []).append(str(item["id"]))
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())


def _guarantee(manifest: Mapping[str, Any]) -> str:
    if _method(manifest).get("reserves") is False:
        return "none reserved"

    def write(name: str) -> str:
        memory = _given(manifest, name, "memory_guarantee_bytes")
        if not memory:
            return UNKNOWN
        cores = _given(manifest, name, "cpu_guarantee_cores")
        shares = [_range(memory, format_size, "none"), _range(cores, format_cores, "no cpu")]
        return ", ".join(shares) + " per trial"

    return _per_set(manifest, write)


def _threshold(manifest: Mapping[str, Any]) -> str:
    def write(name: str) -> str:
        memory = _given(manifest, name, "memory_limit_bytes")
        if not memory:
            return UNKNOWN
        cores = _given(manifest, name, "cpu_limit_cores")
        shares = [
            _range(memory, format_size, "memory uncapped"),
            _range(cores, format_cores, "cpu uncapped"),
        ]
        return ", ".join(shares)

    return _per_set(manifest, write)


def _method(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of enforcement; those of old where a manifest has none of its own."""
    entry = manifest.get("enforcement")
    if isinstance(entry, Mapping):
        return entry
    engine = group(manifest, "backend").get("enforcement")
    return {} if not engine else DEFAULT_ENFORCEMENT.facts(str(engine))


def _kills(manifest: Mapping[str, Any]) -> str:
    method = _method(manifest)
    if not method:
        return UNKNOWN
    swap = {
        "none": "memory plus swap equals the threshold",
        "twice": "memory plus swap is twice the threshold",
    }.get(str(method.get("swap")), UNKNOWN)
    policy = {
        "process": "a kill takes one process",
        "container": "the first kill ends the trial",
    }.get(str(method.get("oom_policy")), UNKNOWN)
    return f"{swap}; {policy}"


def _enforcement(manifest: Mapping[str, Any]) -> str:
    engine, words = group(manifest, "backend"), enforcement_words(manifest)
    if words is None:
        return UNKNOWN
    version = engine.get("cgroup_version")
    cgroup = "no cgroup" if version is None else f"cgroup v{version}"
    return f"{words}; {engine.get('engine') or 'engine unknown'}, {cgroup}"


def _visible(manifest: Mapping[str, Any]) -> str:
    visible = _method(manifest).get("visible")
    if visible == "limit":
        return "as many as the CPU limit allows"
    cores = group(group(manifest, "backend"), "capacity").get("cpu_cores")
    if visible != "host" or not _is_number(cores):
        return UNKNOWN
    return f"all {cores:g} of the host, whatever the CPU limit"


def _timeouts(manifest: Mapping[str, Any]) -> str:
    tasks = manifest["tasks"]

    def agent(name: str) -> str:
        given = [
            limits["agent_timeout_seconds"]
            for task in tasks
            if "agent_timeout_seconds" in (limits := group(group(task, "limits"), name))
        ]
        return _range(given, _seconds, "no deadline")

    verifier = [
        task["verifier_timeout_seconds"] for task in tasks if "verifier_timeout_seconds" in task
    ]
    return f"agent {_per_set(manifest, agent)}; verifier {_range(verifier, _seconds, 'none')}"


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _location(manifest: Mapping[str, Any]) -> str:
    agent = group(manifest, "agent")
    location = agent.get("location")
    if agent.get("name") in REFERENCE_AGENTS or "command" in agent:
        location = location or IN_SANDBOX
    if isinstance(location, str):
        return _LOCATIONS.get(location, location)
    if agent.get("name") == "test body":
        return "test body on the host, its commands in the sandbox"
    return UNKNOWN


def _concurrency(manifest: Mapping[str, Any]) -> str:
    admission, workers = group(manifest, "admission"), manifest.get("workers")
    is_known = isinstance(workers, int)
    at_once = f"at most {max(1, workers or 0)} trial(s) at once" if is_known else UNKNOWN
    budget = group(admission, "budget")
    if not (_is_number(budget.get("memory_bytes")) and _is_number(budget.get("cpu_cores"))):
        return at_once
    return (
        f"{at_once}; each reserves its {admission.get('admit')} from a budget of "
        f"{format_size(budget['memory_bytes'])} and {format_cores(budget['cpu_cores'])} for all"
    )


def _network(manifest: Mapping[str, Any]) -> str:
    known = [task["network"] for task in manifest["tasks"] if "network" in task]
    if not known:
        return UNKNOWN
    if all(known):
        return "open"
    return "none" if not any(known) else f"open in {sum(map(bool, known))} of {len(known)} tasks"


def _endpoint(manifest: Mapping[str, Any]) -> str:
    given = group(manifest, "disclosed").get("inference-endpoint")
    if given:
        return str(given)
    is_reference = group(manifest, "agent").get("name") in REFERENCE_AGENTS
    return "none: the agent is not a model" if is_reference else NOT_GIVEN
