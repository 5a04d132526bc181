"""Trials as a table for other programs: one row per attempt, columns that are documented."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.model.outcome import Phase
from pytest_infranoise.study.files import replace_text
from pytest_infranoise.study.store import Study

Row = Mapping[str, Any]
"""One attempt: a value by each of `COLUMNS`."""

COLUMNS: Mapping[str, str] = {
    "study": "id of the study, of the part in a merged one",
    "task": "name of the task",
    "parameter_set": "id of the parameter set",
    "memory_multiplier": "memory relative to the declared spec; empty is uncapped",
    "cpu_multiplier": "CPU relative to the declared spec; empty is uncapped",
    "timeout_multiplier": "agent's time relative to the declared one",
    "sample": "number of the repetition, from 1",
    "attempt": "1, or more where a trial was tried again; rates count the first that is not of "
    "cause model_api or engine_away",
    "block": "the task's sample in every set, numbered from 0 in the study's order",
    "position": "place in the study's order, from 0",
    "seed": "seed of the agent's run, the same in every set",
    "outcome": "passed, failed, timeout, oom or infra_error",
    "cause": "why, where the outcome alone does not say it",
    "detail": "one line about the cause",
    "score": "the verifier's reward",
    "started_at": "UTC",
    "worker": "the pytest worker",
    "wall_seconds": "from the sandbox's opening to the verdict",
    "agent_seconds": "wall time of the agent phase",
    "verify_seconds": "wall time of the verification",
    "admission_wait_seconds": "time spent waiting for the guarantee to be free",
    "oom_kills": "kills at the trial's own threshold; empty is unknown",
    "memory_guarantee_bytes": "what was reserved",
    "memory_limit_bytes": "the kill threshold; empty is uncapped",
    "cpu_guarantee_cores": "what was reserved",
    "cpu_limit_cores": "the CPU limit; empty is uncapped",
    "memory_peak_bytes": "peak, page cache included; bounded by the threshold",
    "memory_working_set_bytes": "memory in use without inactive page cache",
    "cpu_seconds": "CPU time",
    "cpu_periods": "scheduling periods with a CPU limit",
    "throttled_periods": "those in which the limit was reached",
    "overrun_seconds": "time above a tolerated threshold",
    "trials_beside": "other guarantees open when this trial was admitted",
    "host_memory_available_bytes": "free on the host when the trial began",
    "visible_cpus": "CPUs that a program in the sandbox sees",
    "visible_memory_bytes": "memory that a program in the sandbox sees",
    "image_digest": "what the sandbox was made of",
    "input_tokens": "what the agent said that it has sent to its model, cached ones included",
    "output_tokens": "what the agent said that it got from its model",
    "cost_usd": "what the agent said that this attempt has cost",
    "model_seconds": "how long the agent said that it waited for its model",
    "model_retries": "how often the agent said that it repeated a request",
    "model": "what the agent said that its model was",
    "agent_version": "what the agent said that its version was",
    "notes": "remarks, separated by semicolons",
}
"""Every column and what it says."""

_MULTIPLIERS = ("memory_multiplier", "cpu_multiplier", "timeout_multiplier")
_USAGE = ("input_tokens", "output_tokens", "cost_usd", "model_seconds", "model", "agent_version")
_STEERS = ("=", "+", "-", "@", "\t", "\r")


def rows(
    records: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield one row per attempt, in the order of the records; None is unknown or uncapped.

    Raises:
        UsageError: the records are a study's that cannot be read.
    """
    sets = {str(item["id"]): item for item in manifest["parameter_sets"]}
    for record in records:
        row = {name: record.get(name) for name in COLUMNS}
        known = sets.get(str(record["parameter_set"]), {})
        row |= {name: known.get(name) for name in _MULTIPLIERS}
        row |= {
            f"{phase}_seconds": _phase_seconds(record, phase)
            for phase in (Phase.AGENT, Phase.VERIFY)
        }
        row |= _usage(record)
        row["notes"] = "; ".join(map(str, record.get("notes") or ())) or None
        yield row


def _usage(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the agent said that it has used; records of old know nothing of it."""
    usage = record.get("usage") or {}
    row = {name: usage.get(name) for name in _USAGE}
    return row | {"model_retries": usage.get("retries")}


def _phase_seconds(record: Mapping[str, Any], phase: Phase) -> float | None:
    """Return the time of all steps of one phase together."""
    found = [
        item["wall_seconds"]
        for item in record.get("phases") or ()
        if item.get("phase") == phase and item.get("wall_seconds") is not None
    ]
    return sum(found) if found else None


def export(study: Study, file: Path) -> int:
    """Write the trials as CSV or JSON, by the file's name; return the number of rows.

    In CSV, text at which a spreadsheet would start to calculate gets an apostrophe in front.

    Raises:
        UsageError: another kind of file, or one that cannot be written.
    """
    writers: Mapping[str, Callable[[Iterable[Row], TextIO], int]] = {
        ".csv": write_csv,
        ".json": write_json_rows,
    }
    write = writers.get(file.suffix.lower())
    if write is None:
        raise UsageError(f"-o: {file} is neither .csv nor .json")
    table = rows(study.records(), study.manifest.data)
    try:
        return replace_text(file, lambda target: write(table, target))
    except OSError as error:
        raise InfranoiseError(f"{file}: cannot be written: {error.strerror}") from error


def write_csv(table: Iterable[Row], target: TextIO) -> int:
    """Write rows as CSV under their heading; return how many."""
    writer = csv.DictWriter(target, COLUMNS)
    writer.writeheader()
    number = 0
    for row in table:
        number += 1
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return number


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.encode("utf-8", "replace").decode()
    return f"'{text}" if text.startswith(_STEERS) else text


def write_json_rows(table: Iterable[Row], target: TextIO) -> int:
    """Write rows as a JSON array, a line each; return how many."""
    target.write("[")
    number = 0
    for row in table:
        target.write(",\n" if number else "\n")
        target.write(json.dumps(row, allow_nan=False))
        number += 1
    target.write("\n]\n")
    return number
