"""Reports of SWE-bench's harness: lists of instance ids, one report per run."""

from collections import Counter
from hashlib import sha256
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.study.imported_fields import Fields, read_fields
from pytest_infranoise.study.imported_runs import (
    FAILED,
    ImportedRun,
    ImportedTrial,
    Meaning,
    infra,
)

KIND = "swebench"
SCHEMA_VERSIONS = (1, 2)

LISTS: dict[str, Meaning] = {
    "resolved_ids": Meaning(Outcome.PASSED),
    "unresolved_ids": FAILED,
    "empty_patch_ids": FAILED,
    "error_ids": infra(Cause.HARNESS),
}
"""What each list of ids means (docs/cli.md); `incomplete_ids` were never run."""

_COUNTS = {
    "resolved_instances": "resolved_ids",
    "unresolved_instances": "unresolved_ids",
    "empty_patch_instances": "empty_patch_ids",
    "error_instances": "error_ids",
}


def read_swebench(file: Path, *, agent: str | None = None) -> ImportedRun:
    """Read one report; `agent` is who made the predictions, which the report does not say.

    Raises:
        UsageError: the file cannot be used; the message names it, with its key.
    """
    report = read_fields(file)
    _check(report)
    lists = {key: report.names(key) for key in LISTS}
    _check_lists(report, lists)
    reasons, failures = _reasons(report), set(report.names("infra_failure_ids"))
    trials = [
        _trial(name, key, failures, reasons) for key, names in lists.items() for name in names
    ]
    if not trials:
        raise UsageError(f"{file}: no instance was run: {', '.join(LISTS)} are empty")
    incomplete = len(report.names("incomplete_ids"))
    likely = sum(name in failures for name in lists["unresolved_ids"])
    note = f"{likely} unresolved instance(s) count as infra errors, as infra_failure_ids names them"
    return ImportedRun(
        kind=KIND,
        name=file.name,
        identity=sha256(file.read_bytes()).hexdigest(),
        trials=sorted(trials, key=lambda item: item.task),
        agent={"name": agent, "model": None, "version": None},
        left_out=Counter({"no prediction": incomplete} if incomplete else {}),
        notes=(note,) if likely else (),
    )


def _check(report: Fields) -> None:
    version = report.values.get("schema_version", SCHEMA_VERSIONS[0])
    if version not in SCHEMA_VERSIONS:
        known = " or ".join(map(str, SCHEMA_VERSIONS))
        raise report.refusal("schema_version", f"{version!r} is not {known}")
    for key in ("resolved_ids", "unresolved_ids"):
        if key not in report.values:
            raise report.refusal(key, "is missing; name a report of swebench.harness")


def _check_lists(report: Fields, lists: dict[str, list[str]]) -> None:
    """Refuse a report that contradicts itself."""
    for count, key in _COUNTS.items():
        number = report.optional_count(count)
        if number is not None and number != len(lists[key]):
            raise report.refusal(count, f"{number}, but {key} holds {len(lists[key])}")
    places: dict[str, str] = {}
    for key, names in lists.items():
        for name in names:
            if places.setdefault(name, key) != key:
                raise report.refusal(key, f"{name!r} stands in {places[name]} too")


def _reasons(report: Fields) -> dict[str, str]:
    reasons = report.optional_object("failure_reasons")
    return {} if reasons is None else {name: reasons.text(name) for name in reasons.values}


def _trial(name: str, key: str, failures: set[str], reasons: dict[str, str]) -> ImportedTrial:
    meaning, detail = LISTS[key], None
    if key == "empty_patch_ids":
        detail = "the prediction was empty"
    elif key != "resolved_ids":
        if name in failures:
            meaning = infra(Cause.HARNESS)
        detail = reasons.get(name, key if meaning.outcome is Outcome.INFRA_ERROR else None)
    assert meaning.outcome is not None
    return ImportedTrial(task=name, outcome=meaning.outcome, cause=meaning.cause, detail=detail)
