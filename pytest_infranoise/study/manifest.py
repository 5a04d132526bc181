"""The manifest of a study: what a reader needs to repeat it, or to distrust it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_infranoise.admission import Budget
from pytest_infranoise.backends.base import EngineInfo
from pytest_infranoise.design import AllocationTable, agent_timeout
from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT, Enforcement
from pytest_infranoise.model.resources import Multiplier, ParameterSet, baseline_of
from pytest_infranoise.model.task import PreparedImage, Task
from pytest_infranoise.model.trial import SCHEMA_VERSION
from pytest_infranoise.study.host import (
    capture_git,
    capture_host,
    capture_load,
    capture_software,
)
from pytest_infranoise.study.redact import Redactor, redact_arguments
from pytest_infranoise.study.sessions import ended

if TYPE_CHECKING:
    from pytest_infranoise.statistics.sequential import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFacts:
    """What the plugin knows of a study before its first trial.

    `agent` is free-form (`name`, `command`, `version`); `passed_variables` names the host's
    variables that the agent sees. `options` is whatever else was set, by option name. `sources` are
    folders with tests that are tasks; those of task folders are known. `control` is the parameter
    set that repeats the baseline, `ceiling` the declared one up to which success must not change
    (None for the default); `planned_looks` are those of a study that ends once it is
    decided, whose `samples` are then the most that may run. `shard` is `{"number": 2, "of": 5}`
    where only a part of the study runs here. `screen` is what became of each task's reference
    solution, uncapped, before the study; `excluded` are the tasks that the user left out;
    `suite` are facts that a conftest adds. `disclosed` is
    what the user says of the study. `ini` is what pytest's configuration file and environment set,
    `pytest_plugins` are the versions of the plugins that are loaded, `study_folder` is where the
    study will be written.
    """

    study: str
    command_line: Sequence[str]
    seed: int
    order: str
    samples: int
    parameter_sets: Sequence[ParameterSet]
    tasks: Sequence[Task]
    allocations: AllocationTable
    engine: EngineInfo
    agent: Mapping[str, Any]
    budget: Budget
    images: Mapping[str, PreparedImage] = field(default_factory=dict)
    admit: str = "guarantee"
    leftovers: str = "keep"
    image_build: str = "never"
    pass_threshold: float = 1.0
    screen: Sequence[Mapping[str, Any]] = ()
    excluded: Sequence[str] = ()
    suite: Mapping[str, Any] = field(default_factory=dict)
    enforcement: Enforcement = DEFAULT_ENFORCEMENT
    is_clamped: bool = False
    workers: int = 0
    passed_variables: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    sources: Sequence[Path] = ()
    control: str | None = None
    ceiling: str | None = None
    planned_looks: Sequence["Look"] = ()
    shard: Mapping[str, int] | None = None
    disclosed: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    ini: Mapping[str, Any] = field(default_factory=dict)
    pytest_plugins: Mapping[str, str] = field(default_factory=dict)
    study_folder: Path | None = None


def capture_manifest(facts: StudyFacts, redactor: Redactor | None = None) -> dict[str, Any]:
    """Return the manifest as builtins, with the state of the host as it is now.

    Values of environment variables are never part of it. `redactor` removes the values of the
    variables that are passed to the agent wherever else they may stand.
    """
    now = datetime.now(UTC)
    command_line = redact_arguments(list(facts.command_line))
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "study": facts.study,
        "started_at": now.isoformat(),
        "ended_at": None,
        "local_timezone": _timezone(now),
        "command_line": command_line,
        "sessions": [
            {"started_at": now.isoformat(), "ended_at": None, "command_line": command_line}
        ],
        "options": facts.options,
        "ini": facts.ini,
        "seed": facts.seed,
        "order": facts.order,
        "samples": facts.samples,
        "extended_from": [],
        "shard": facts.shard,
        "parameter_sets": [_set_facts(item) for item in facts.parameter_sets],
        "baseline": baseline_of(facts.parameter_sets).id if facts.parameter_sets else None,
        "control": facts.control,
        "ceiling": facts.ceiling,
        "equal_sets": facts.allocations.equal_sets,
        "planned_looks": [asdict(look) for look in facts.planned_looks],
        "decided_at_look": None,
        "is_clamped": facts.is_clamped,
        "agent": facts.agent,
        "passed_variables": sorted(facts.passed_variables),
        "leftovers": facts.leftovers,
        "image_build": facts.image_build,
        "pass_threshold": facts.pass_threshold,
        "oracle_screen": facts.screen,
        "excluded_tasks": facts.excluded,
        "suite": facts.suite,
        "backend": asdict(facts.engine),
        "enforcement": facts.enforcement.facts(facts.engine.enforcement),
        "admission": {"admit": facts.admit, "budget": asdict(facts.budget)},
        "workers": facts.workers,
        "tasks": [_task_facts(task, facts) for task in facts.tasks],
        "sources_git": capture_git(_source_folders(facts)),
        "software": {**capture_software(), "pytest_plugins": facts.pytest_plugins},
        "host": capture_host(),
        "load_at_start": capture_load(_disks(facts.study_folder, asdict(facts.engine))),
        "load_at_end": None,
        "disclosed": facts.disclosed,
        "notes": facts.notes,
    }
    builtins = to_builtins(manifest)
    redacted = (redactor or Redactor()).value(builtins)
    assert isinstance(redacted, dict)
    return redacted


def _source_folders(facts: StudyFacts) -> set[Path]:
    return {*facts.sources, *(task.directory for task in facts.tasks if task.directory)}


def _disks(study: Path | None, engine: Mapping[str, Any]) -> dict[str, Path | None]:
    """Return the folders whose disks a study may fill: its own, and that of the sandboxes.

    Where an engine that is reached through the network keeps its sandboxes cannot be looked at.
    """
    details = engine.get("details") or {}
    folder = details.get("base") or details.get("storage_folder")
    is_here = str(details.get("endpoint") or "unix:").startswith("unix:")
    return {"study": study, "sandboxes": Path(folder) if folder and is_here else None}


def finish_manifest(
    manifest: Mapping[str, Any], folder: Path | None = None, **results: Any
) -> dict[str, Any]:
    """Return the manifest of a study that has ended now; `results` are added as they are.

    `folder` is where it was written.
    """
    now = datetime.now(UTC).isoformat()
    return {
        **manifest,
        "ended_at": now,
        "sessions": ended(manifest, now),
        "load_at_end": capture_load(_disks(folder, manifest.get("backend") or {})),
        **to_builtins(results),
    }


def to_builtins(value: Any) -> Any:
    """Return a value as JSON knows it: sets sorted, tuples as lists, paths and enums as text."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): to_builtins(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(to_builtins(item) for item in value)
    if isinstance(value, list | tuple):
        return [to_builtins(item) for item in value]
    return str(value)


def _timezone(now: datetime) -> dict[str, Any]:
    local = now.astimezone()
    offset = local.utcoffset()
    return {
        "name": local.tzname(),
        "utc_offset_seconds": None if offset is None else int(offset.total_seconds()),
    }


def _set_facts(parameter_set: ParameterSet) -> dict[str, Any]:
    """Multipliers stand as numbers; null is uncapped."""
    return {
        "id": parameter_set.id,
        "memory_multiplier": _factor(parameter_set.memory),
        "cpu_multiplier": _factor(parameter_set.cpu),
        "timeout_multiplier": _factor(parameter_set.timeout),
    }


def _factor(multiplier: Multiplier) -> float | None:
    return None if multiplier.factor is None else float(multiplier.factor)


def _task_facts(task: Task, facts: StudyFacts) -> dict[str, Any]:
    image = facts.images.get(task.name)
    own = facts.allocations.allocations.get(task.name, {})
    return {
        "name": task.name,
        "digest": task.digest,
        "directory": _relative(task.directory),
        "spec": asdict(task.spec),
        "helpers": [] if task.compose is None else [asdict(item) for item in task.compose.helpers],
        "verifiers": [
            {"spec": asdict(item.sandbox.spec), "has_tests": item.has_tests}
            for item in task.verifiers
        ],
        "image": None if image is None else _image_facts(image),
        "agent_timeout_seconds": task.agent_timeout_seconds,
        "verifier_timeout_seconds": task.verifier_timeout_seconds,
        "environment_variables": sorted(
            {*task.environment, *task.solution_environment, *task.verifier_environment}
        ),
        "leftovers": task.leftovers or facts.leftovers,
        "network": task.network,
        "storage_bytes": task.storage_bytes,
        "notes": task.notes,
        "limits": {
            item.id: {
                "requested": asdict(own[item.id].requested),
                "effective": asdict(own[item.id].effective),
                "agent_timeout_seconds": agent_timeout(task, item),
            }
            for item in facts.parameter_sets
            if item.id in own
        },
    }


def _image_facts(image: PreparedImage) -> dict[str, Any]:
    facts = {"reference": image.reference, "digest": image.digest}
    return facts if image.base_digest is None else {**facts, "base_digest": image.base_digest}


def _relative(directory: Path | None) -> str | None:
    """Name a folder as seen from here where it lies below, so that a manifest can be published."""
    if directory is None:
        return None
    here = Path.cwd()
    return str(directory.relative_to(here) if directory.is_relative_to(here) else directory)
