"""Studies in, a calibration out: which records say what, and which studies may say anything."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pytest_infranoise.analysis.calibration import (
    AgentTrials,
    Calibration,
    CalibrationSettings,
    Usage,
    calibrate,
)
from pytest_infranoise.analysis.tally import THROTTLED_SHARE
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.report.terminal import engine_words
from pytest_infranoise.report.view import REFERENCE_AGENTS
from pytest_infranoise.study.accounts import measured
from pytest_infranoise.study.store import Manifest, Study

_SPEC = tuple(item.name for item in fields(ResourceSpec))
_STRANGERS = (Cause.HOST_MEMORY, Cause.UNATTRIBUTED_KILL)
_VERIFIED = (
    Cause.VERIFIER_TIMEOUT,
    Cause.VERIFIER_BOOTSTRAP,
    Cause.REWARD_MISSING,
    Cause.REWARD_INVALID,
)
"""Infrastructure errors of a trial whose work was done: what it used is known."""


@dataclass(frozen=True, slots=True)
class CalibratedTask:
    """A task as the studies know it; `directory` is None for a marked test."""

    name: str
    digest: str | None
    directory: Path | None
    spec: ResourceSpec


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The calibration with the tasks that it is about, and words on where it comes from."""

    calibration: Calibration
    tasks: Mapping[str, CalibratedTask]
    engines: tuple[str, ...]


def calibrate_studies(studies: Sequence[Study], settings: CalibrationSettings) -> CalibrationReport:
    """Return what to publish for every task of these studies.

    Raises:
        UsageError: a study that cannot be used (imported, measured by the watchdog or under limits
            that let overruns pass), studies of different tasks under one name, no agent at all.
    """
    tasks: dict[str, CalibratedTask] = {}
    trials: dict[tuple[str, bool], dict[str, list[Usage]]] = {}
    for study in studies:
        _check_measured(study)
        for task in _tasks_of(study):
            _check_same(tasks.setdefault(task.name, task), task, study)
        own = trials.setdefault(_agent_of(study.manifest), defaultdict(list))
        for record in measured(study.records()):
            name = str(record["task"])
            if name not in tasks:
                tasks[name] = _marked_test(name, record)
            if record["attempt"] == 1:
                own[name].append(usage_of(record))
    entries = [AgentTrials(name, is_reference, own) for (name, is_reference), own in trials.items()]
    declared = {name: task.spec for name, task in tasks.items()}
    engines = tuple(dict.fromkeys(engine_words(study.manifest.data) for study in studies))
    return CalibrationReport(calibrate(entries, declared, settings), tasks, engines)


def _agent_of(manifest: Manifest) -> tuple[str, bool]:
    """Return what tells one agent from another, and whether it is a reference solution."""
    agent = manifest.agent
    name = str(agent.get("name", "unknown"))
    version = agent.get("version")
    return (name if version is None else f"{name} {version}", name in REFERENCE_AGENTS)


def _check_measured(study: Study) -> None:
    data = study.manifest.data
    if isinstance(data.get("source"), Mapping):
        raise UsageError(
            f"{study.directory}: imported outcomes hold no peaks that were measured here; run the "
            "tasks with --infra-agent"
        )
    if study.manifest.backend.get("enforcement") == "watchdog":
        raise UsageError(
            f"{study.directory}: measured by the watchdog, which misses short peaks; run it on "
            "docker, or where the local backend may write cgroups"
        )
    method = data.get("enforcement")
    if isinstance(method, Mapping):
        loose = method.get("lenient_seconds") is not None and "tolerated overruns"
        loose = loose or (method.get("swap") == "twice" and "allowed swap beyond the limit")
        if loose:
            raise UsageError(
                f"{study.directory}: its enforcement {loose}, so a trial that lived may have "
                "needed more than its threshold; run it with --infra-enforcement=hard"
            )


def _tasks_of(study: Study) -> Iterable[CalibratedTask]:
    for entry in study.manifest.data["tasks"]:
        spec, directory = entry.get("spec"), entry.get("directory")
        try:
            known = ResourceSpec(**{key: spec[key] for key in _SPEC if key in spec})
        except (TypeError, KeyError):
            raise UsageError(
                f"{study.directory}: its manifest does not say what task {entry['name']} declares"
            ) from None
        yield CalibratedTask(
            str(entry["name"]),
            entry.get("digest"),
            None if directory is None else Path(directory),
            known,
        )


def _marked_test(name: str, record: Mapping[str, Any]) -> CalibratedTask:
    """Return a task that no manifest lists: a marker declares one size, which is reserved."""
    asked = record.get("requested") or {}
    try:
        spec = ResourceSpec.declared(asked["memory_guarantee_bytes"], asked["cpu_guarantee_cores"])
    except (KeyError, TypeError):
        raise UsageError(
            f"task {name!r}: neither manifest nor record says what it declares"
        ) from None
    return CalibratedTask(name, None, None, spec)


def _check_same(known: CalibratedTask, task: CalibratedTask, study: Study) -> None:
    if known.digest != task.digest or known.spec != task.spec:
        raise UsageError(
            f"{study.directory}: task {task.name} is another one there than in the studies before "
            "(its files or what it declares differ); calibrate them apart"
        )


def usage_of(record: Mapping[str, Any]) -> Usage:
    """Return what one trial's record says of what it used.

    Raises:
        UsageError: the record is not as this program writes it.
    """
    try:
        outcome, cause = Outcome(record["outcome"]), record["cause"]
        is_strange = cause in _STRANGERS
        return Usage(
            memory_limit_bytes=record["memory_limit_bytes"],
            memory_peak_bytes=record["memory_peak_bytes"],
            working_set_bytes=_largest_working_set(record),
            killed=_killed(record, outcome, is_strange),
            by_stranger=is_strange,
            cut_short=outcome is Outcome.INFRA_ERROR and not is_strange and cause not in _VERIFIED,
            cpu_limit_cores=record["cpu_limit_cores"],
            throttled_out=outcome is Outcome.TIMEOUT and _is_throttled(record),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(
            f"a record of task {record.get('task')!r} cannot be used: {error}"
        ) from None


def _killed(record: Mapping[str, Any], outcome: Outcome, is_strange: bool) -> bool | None:
    if outcome is Outcome.OOM or is_strange:
        return True
    kills = record["oom_kills"]
    return None if kills is None else kills > 0


def _is_throttled(record: Mapping[str, Any]) -> bool:
    periods, throttled = record["cpu_periods"], record["throttled_periods"]
    return bool(periods) and throttled is not None and throttled / periods >= THROTTLED_SHARE


def _largest_working_set(record: Mapping[str, Any]) -> int | None:
    known = [record["memory_working_set_bytes"]]
    known += [phase.get("memory_working_set_bytes") for phase in record.get("phases") or ()]
    return max((value for value in known if value is not None), default=None)
