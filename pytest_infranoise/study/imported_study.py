"""Runs of other tools as a study: each run is one parameter set, several make the study."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.model.trial import SCHEMA_VERSION, TrialRecord
from pytest_infranoise.study.files import write_json
from pytest_infranoise.study.host import capture_software
from pytest_infranoise.study.imported import write_study
from pytest_infranoise.study.imported_runs import ImportedRun
from pytest_infranoise.study.imported_source import TOOLS
from pytest_infranoise.study.journal import JOURNAL_NAME, Journal, encode_line
from pytest_infranoise.study.redact import redact_arguments
from pytest_infranoise.study.store import Study, load_study
from pytest_infranoise.study.writer import MANIFEST_NAME, new_study_id

_Samples = Counter[tuple[str, str]]


def import_runs(
    runs: Sequence[ImportedRun],
    directory: Path,
    *,
    parameter_set: str,
    into: bool = False,
    baseline: str | None = None,
    command_line: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Make a study of runs of one parameter set, or add them to one; return its manifest.

    Trials of a task get their sample numbers in the order of the runs, and in each of their start.

    Args:
        runs: What a reader found; all of one tool.
        directory: The study's folder.
        parameter_set: The id of the set that all of them ran with.
        into: Add to the study in `directory`, made by an earlier import of the same tool.
        baseline: The set that others are compared with; None keeps the first.
        command_line: How the import was asked for.

    Raises:
        UsageError: the study cannot be made or added to; nothing is changed.
        JournalError: the disk refuses the records; nothing is changed.
    """
    study = _study_of(directory, runs[0].kind) if into else None
    before = _new(runs, command_line) if study is None else dict(study.manifest.data)
    _check_runs(before, runs)
    agent = _one_agent(before, runs)
    samples: _Samples = Counter()
    for record in () if study is None else study.records():
        key = (record["task"], record["parameter_set"])
        samples[key] = max(samples[key], record["sample"])
    lines = [
        encode_line(record.to_json())
        for record in _records(runs, parameter_set, before["study"], samples)
    ]
    manifest = _manifest(before, runs, parameter_set, baseline, samples)
    manifest["agent"] = agent
    if study is None:
        write_study(directory, manifest, iter(lines))
    else:
        _add(directory, manifest, lines)
    return manifest


def _study_of(directory: Path, kind: str) -> Study:
    study = load_study(directory)
    source = study.manifest.data.get("source")
    found = source.get("kind") if isinstance(source, Mapping) else None
    if found != kind:
        what = f"imported from {TOOLS.get(str(found), found)}" if found else "run by pytest"
        raise UsageError(f"--into: {directory} was {what}; use -o with a new folder")
    return study


def _new(runs: Sequence[ImportedRun], command_line: Sequence[str]) -> dict[str, Any]:
    """What is known before any run is counted; everything else is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "study": new_study_id(),
        "source": {"kind": runs[0].kind, "runs": []},
        "started_at": None,
        "ended_at": None,
        "command_line": redact_arguments(list(command_line)),
        "seed": None,
        "order": None,
        "parameter_sets": [],
        "equal_sets": [],
        "agent": None,
        "backend": None,
        "tasks": [],
        "software": capture_software(),
    }


def _check_runs(before: Mapping[str, Any], runs: Sequence[ImportedRun]) -> None:
    """Refuse a run that is in the study already: its trials would count twice."""
    known = [(run["identity"], run["name"]) for run in before["source"]["runs"]]
    names = dict(known)
    holders = {trial: name for identity, name in known for trial in _trial_ids(identity)}
    for run in runs:
        if run.identity in names:
            raise UsageError(f"{run.name}: the study has it already, as {names[run.identity]}")
        ids = _trial_ids(run.identity)
        if shared := [trial for trial in ids if trial in holders]:
            raise UsageError(
                f"{run.name}: {len(shared)} of its {len(ids)} trials are in the study already, "
                f"as {holders[shared[0]]}, which has gone on since; use -o with a new folder"
            )
        names[run.identity] = run.name
        holders |= dict.fromkeys(ids, run.name)


def _trial_ids(identity: str) -> list[str]:
    """Return the ids of a run's trials, as far as its tool gives them any."""
    return identity.split("\n")[1:]


def _one_agent(before: Mapping[str, Any], runs: Sequence[ImportedRun]) -> dict[str, Any]:
    """Return who ran; refuse a second agent or model. Versions that differ are unknown."""
    agent = before["agent"] and dict(before["agent"])
    for run in runs:
        if agent is None:
            agent = dict(run.agent)
        ours, theirs = ((agent["name"], agent["model"]), (run.agent["name"], run.agent["model"]))
        if ours != theirs:
            raise UsageError(
                f"{run.name}: ran {_agent_words(run.agent)}, but the study's agent is "
                f"{_agent_words(agent)}; make a study of each, and compare them"
            )
        if agent["version"] != run.agent["version"]:
            agent["version"] = None
    return dict(agent)


def _agent_words(agent: Mapping[str, Any]) -> str:
    return " with ".join(str(agent[key]) for key in ("name", "model") if agent[key]) or "unknown"


def _records(
    runs: Sequence[ImportedRun], parameter_set: str, study: str, samples: _Samples
) -> Iterator[TrialRecord]:
    """Yield the trials, numbered on from `samples`, which is counted up."""
    for run in runs:
        for trial in run.trials:
            samples[trial.task, parameter_set] += 1
            started = trial.started_at
            yield TrialRecord(
                study=study,
                task=trial.task,
                parameter_set=parameter_set,
                sample=samples[trial.task, parameter_set],
                attempt=1,
                block=None,
                position=None,
                seed=None,
                outcome=trial.outcome,
                cause=trial.cause,
                detail=trial.detail,
                started_at=None if started is None else started.isoformat(),
                worker=None,
                score=trial.score,
                wall_seconds=trial.wall_seconds,
                phases=trial.phases,
                usage=trial.usage,
            )


def _manifest(
    before: Mapping[str, Any],
    runs: Sequence[ImportedRun],
    parameter_set: str,
    baseline: str | None,
    samples: _Samples,
) -> dict[str, Any]:
    """Return the manifest with the runs added."""
    sets = list(dict.fromkeys((*(item["id"] for item in before["parameter_sets"]), parameter_set)))
    chosen = baseline or before.get("baseline") or sets[0]
    if chosen not in sets:
        raise UsageError(
            f"--baseline: {chosen!r} is not a parameter set of this study: {', '.join(sets)}"
        )
    tasks, changed = _tasks(before, runs)
    cells = {samples[task, name] for task in tasks for name in sets}
    own = [_run_facts(run, parameter_set) for run in runs]
    known = [*before["source"]["runs"], *own]
    return {
        **before,
        "source": {**before["source"], "runs": known},
        "started_at": _earliest(before, runs),
        "ended_at": datetime.now(UTC).isoformat(),
        "samples": cells.pop() if len(cells) == 1 else None,
        "parameter_sets": [{"id": name} for name in sets],
        "baseline": chosen,
        "tasks": [{"name": name, "digest": digest} for name, digest in tasks.items()],
        "changed_tasks": changed,
        "pass_threshold": _common([run["pass_threshold"] for run in known]),
        "workers": _common([run["concurrency"] for run in known]),
        "planned_trials": sum(samples.values()),
    }


def _tasks(
    before: Mapping[str, Any], runs: Sequence[ImportedRun]
) -> tuple[dict[str, str | None], list[str]]:
    """Return what each task was, and the names of those that were not the same throughout."""
    tasks = {item["name"]: item["digest"] for item in before["tasks"]}
    changed = dict.fromkeys(before.get("changed_tasks") or ())
    for run in runs:
        for trial in run.trials:
            if tasks.setdefault(trial.task, trial.content) != trial.content:
                changed[trial.task] = None
    return {name: None if name in changed else digest for name, digest in tasks.items()}, [*changed]


def _run_facts(run: ImportedRun, parameter_set: str) -> dict[str, Any]:
    return {
        "parameter_set": parameter_set,
        "name": run.name,
        "identity": run.identity,
        "imported_at": datetime.now(UTC).isoformat(),
        "trials": len(run.trials),
        "left_out": dict(sorted(run.left_out.items())),
        "agent_version": run.agent["version"],
        "concurrency": run.concurrency,
        "pass_threshold": run.pass_threshold,
        "facts": dict(run.facts),
        "notes": list(run.notes),
    }


def _earliest(before: Mapping[str, Any], runs: Sequence[ImportedRun]) -> str | None:
    starts = [
        trial.started_at.isoformat() for run in runs for trial in run.trials if trial.started_at
    ]
    return min((*starts, *filter(None, (before["started_at"],))), default=None)


def _common(values: Sequence[Any]) -> Any:
    """Return what all have, None where they differ."""
    return values[0] if all(value == values[0] for value in values) else None


def _add(directory: Path, manifest: Mapping[str, Any], lines: Sequence[bytes]) -> None:
    """Append records and replace the manifest: both or neither."""
    path = directory / JOURNAL_NAME
    with Journal(directory) as journal:
        size = path.stat().st_size
        journal.extend(iter(lines))
        try:
            write_json(directory / MANIFEST_NAME, manifest)
        except OSError as error:
            os.truncate(path, size)
            raise InfranoiseError(f"{directory}: cannot be written: {error.strerror}") from error
