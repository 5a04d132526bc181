"""Counts as a study: a manifest and one record per trial, so that every reader can be used."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.trial import SCHEMA_VERSION
from pytest_infranoise.study.counts import COUNTED, CountTable, read_counts
from pytest_infranoise.study.files import write_json
from pytest_infranoise.study.host import capture_software
from pytest_infranoise.study.imported_source import COUNTS
from pytest_infranoise.study.journal import JOURNAL_NAME, Journal, encode_line
from pytest_infranoise.study.redact import redact_arguments
from pytest_infranoise.study.writer import MANIFEST_NAME, new_study_id

_UNKNOWN = (
    "block",
    "position",
    "seed",
    "cause",
    "detail",
    "started_at",
    "worker",
    "score",
    "oom_kills",
    "memory_guarantee_bytes",
    "memory_limit_bytes",
    "cpu_guarantee_cores",
    "cpu_limit_cores",
    "memory_peak_bytes",
    "memory_working_set_bytes",
    "cpu_periods",
    "throttled_periods",
    "wall_seconds",
    "admission_wait_seconds",
)
_TASK_MARK = "\0task"
_SAMPLE_MARK = "\0sample"


def import_counts(
    file: Path,
    directory: Path,
    *,
    baseline: str | None = None,
    command_line: Sequence[str] = (),
) -> CountTable:
    """Make a study in `directory` of the counts in a CSV file, and return the counts.

    `baseline` None is the parameter set that appears first.

    Raises:
        UsageError: the file cannot be used, or the folder holds records already.
        JournalError: the disk refuses the records; nothing is left behind.
    """
    table = read_counts(file)
    sets = table.parameter_sets
    if baseline is not None and baseline not in sets:
        raise UsageError(
            f"--baseline: {baseline!r} is not a parameter set of {file}; use one of "
            f"{', '.join(sets)}"
        )
    manifest = _manifest(table, file, baseline or sets[0], command_line)
    write_study(directory, manifest, _record_lines(table, manifest["study"]))
    return table


def _manifest(
    table: CountTable, file: Path, baseline: str, command_line: Sequence[str]
) -> dict[str, Any]:
    """What is known of such a study; everything else is null."""
    now = datetime.now(UTC).isoformat()
    return {
        "schema_version": SCHEMA_VERSION,
        "study": new_study_id(),
        "source": {
            "kind": COUNTS,
            "file": file.name,
            "sha256": sha256(file.read_bytes()).hexdigest(),
            "imported_at": now,
        },
        "started_at": None,
        "ended_at": now,
        "command_line": redact_arguments(list(command_line)),
        "seed": None,
        "order": None,
        "samples": table.samples,
        "parameter_sets": [{"id": name} for name in table.parameter_sets],
        "baseline": baseline,
        "equal_sets": [],
        "agent": {"name": None},
        "backend": None,
        "tasks": [{"name": name} for name in table.tasks],
        "planned_trials": table.n_trials,
        "software": capture_software(),
    }


def _record_lines(table: CountTable, study: str) -> Iterator[bytes]:
    """Yield a line per trial; only names and numbers differ, so each kind is encoded once."""
    templates = {
        (name, outcome): _template(study, name, outcome.value)
        for name in table.parameter_sets
        for outcome in COUNTED
    }
    quoted = {task: encode_line({"": task})[4:-2] for task in table.tasks}
    for row in table.rows:
        sample = 0
        for outcome, number in zip(COUNTED, row.counts, strict=True):
            head, middle, tail = templates[row.parameter_set, outcome]
            head = head + quoted[row.task] + middle
            for _ in range(number):
                sample += 1
                yield b"%s%d%s" % (head, sample, tail)


def _template(study: str, parameter_set: str, outcome: str) -> tuple[bytes, bytes, bytes]:
    """Return what stands before the task, between it and the sample's number, and after that."""
    record: Mapping[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "study": study,
        "task": _TASK_MARK,
        "parameter_set": parameter_set,
        "sample": _SAMPLE_MARK,
        "attempt": 1,
        "outcome": outcome,
        **dict.fromkeys(_UNKNOWN),
        "phases": [],
    }
    line = encode_line(record)
    head, _, rest = line.partition(encode_line({"": _TASK_MARK})[4:-2])
    middle, _, tail = rest.partition(encode_line({"": _SAMPLE_MARK})[4:-2])
    return head, middle, tail


def write_study(directory: Path, manifest: Mapping[str, Any], lines: Iterator[bytes]) -> None:
    """Write the lines of records, then the manifest that makes a study of them.

    Raises:
        UsageError: the folder holds a study already, or cannot be written.
        JournalError: the disk refuses the records; nothing is left behind.
    """
    journal = directory / JOURNAL_NAME
    try:
        if any((directory / name).exists() for name in (JOURNAL_NAME, MANIFEST_NAME)):
            raise UsageError(
                f"-o: {directory} already holds a study; name a folder that does not exist yet"
            )
        made = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        with Journal(directory) as writer:  # what is removed below is ours as long as it is held
            try:
                writer.extend(lines)
                write_json(directory / MANIFEST_NAME, manifest)
            except BaseException:
                with suppress(OSError):
                    journal.unlink()
                    if made:
                        directory.rmdir()
                raise
    except OSError as error:
        raise UsageError(f"-o: {directory} cannot be written: {error.strerror}") from error
