"""Runs of Terminal-Bench 1: `results.json` with one entry per trial."""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Ending, Outcome, Phase
from pytest_infranoise.model.trial import PhaseRecord
from pytest_infranoise.model.usage import usage_of
from pytest_infranoise.study.imported_fields import Fields, read_fields
from pytest_infranoise.study.imported_runs import (
    FAILED,
    TIMEOUT,
    UNKNOWN_WORD,
    ImportedRun,
    ImportedTrial,
    Meaning,
    infra,
    phase_record,
    start_order,
)

KIND = "terminal-bench"
RESULTS = "results.json"

FAILURE_MODES: Mapping[str, Meaning] = {
    "none": FAILED,
    "unset": FAILED,
    "agent_timeout": TIMEOUT,
    "fatal_llm_parse_error": FAILED,
    "context_length_exceeded": FAILED,
    "output_length_exceeded": FAILED,
    "test_timeout": infra(Cause.VERIFIER_TIMEOUT),
    "parse_error": infra(Cause.REWARD_INVALID),
    "agent_installation_failed": infra(Cause.SANDBOX_START),
    "unknown_agent_error": infra(Cause.HARNESS),
    "unknown": infra(Cause.HARNESS),
}
"""What `failure_mode` means where the trial is not resolved (docs/cli.md)."""

_FACTS = ("dataset_name", "dataset_version", "n_attempts", "commit_hash")


def read_terminal_bench(path: Path, *, agent: str | None = None) -> ImportedRun:
    """Read a run's folder, or the `results.json` in it.

    `agent` is who ran where no `run_metadata.json` says it.

    Raises:
        UsageError: a file cannot be used; the message names it, with its key.
    """
    file = path / RESULTS if path.is_dir() else path
    results = read_fields(file)
    if "results" not in results.values:
        problem = "is missing; name the folder of a run, not of a trial"
        raise results.refusal("results", problem)
    entries = list(results.objects("results"))
    trials = [_trial(entry) for entry in entries]
    ids = {entry.optional_text("id") for entry in entries} - {None, ""}
    if not trials:
        raise UsageError(f"{file}: results: no trial")
    resolved = sum(item.outcome is Outcome.PASSED for item in trials)
    counted = results.optional_count("n_resolved")
    if counted is not None and counted != resolved:
        raise results.refusal("n_resolved", f"{counted}, but results hold {resolved}")
    metadata = _metadata(file.with_name("run_metadata.json"))
    return ImportedRun(
        kind=KIND,
        name=file.parent.resolve().name,
        identity="\n".join([sha256(file.read_bytes()).hexdigest(), *sorted(map(str, ids))]),
        trials=sorted(trials, key=start_order),
        agent={
            "name": agent if metadata is None else metadata.text("agent_name"),
            "model": None if metadata is None else metadata.optional_text("model_name"),
            "version": None,
        },
        concurrency=None if metadata is None else metadata.optional_count("n_concurrent_trials"),
        left_out=Counter(),
        facts=_facts(metadata),
    )


def _metadata(file: Path) -> Fields | None:
    return read_fields(file) if file.is_file() else None


def _facts(metadata: Fields | None) -> dict[str, Any]:
    values = {} if metadata is None else {name: metadata.values.get(name) for name in _FACTS}
    return {name: value for name, value in values.items() if isinstance(value, str | int)}


def _trial(entry: Fields) -> ImportedTrial:
    mode = entry.optional_text("failure_mode") or "unset"
    passed = entry.optional_flag("is_resolved") is True
    meaning = Meaning(Outcome.PASSED) if passed else FAILURE_MODES.get(mode, UNKNOWN_WORD)
    if meaning == FAILED and entry.optional_flag("is_resolved") is None:
        meaning = infra(Cause.REWARD_MISSING)
    assert meaning.outcome is not None
    return ImportedTrial(
        task=entry.text("task_id"),
        outcome=meaning.outcome,
        cause=meaning.cause,
        detail=None if mode in ("none", "unset") else f"failure_mode {mode}",
        started_at=entry.optional_time("trial_started_at"),
        ended_at=entry.optional_time("trial_ended_at"),
        phases=_phases(entry, meaning, mode),
        usage=usage_of(
            {name: entry.values.get(f"total_{name}") for name in ("input_tokens", "output_tokens")},
            source=RESULTS,
        )[0],
    )


def _phases(entry: Fields, meaning: Meaning, mode: str) -> tuple[PhaseRecord, ...]:
    """Return agent and verification where the file tells how they ended."""
    if meaning.outcome is Outcome.INFRA_ERROR and meaning.cause is not Cause.VERIFIER_TIMEOUT:
        return ()
    found: list[PhaseRecord] = []
    for key, phase, late in (
        ("agent", Phase.AGENT, "agent_timeout"),
        ("test", Phase.VERIFY, "test_timeout"),
    ):
        start = entry.optional_time(f"{key}_started_at")
        end = entry.optional_time(f"{key}_ended_at")
        ending = Ending.DEADLINE if mode == late else Ending.EXIT
        found += phase_record(phase, ending, start, end)
    return tuple(found)
