"""Reading a study back, finished or still running."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import UNMEASURED
from pytest_infranoise.model.table import CAUSES, OUTCOMES, UNKNOWN, OutcomeTable
from pytest_infranoise.model.trial import SCHEMA_VERSION, TrialRecord
from pytest_infranoise.study.accounts import Accounts
from pytest_infranoise.study.journal import JOURNAL_NAME, is_record
from pytest_infranoise.study.schema import MANIFEST_UPGRADES, RECORD_UPGRADES, upgrade
from pytest_infranoise.study.writer import MANIFEST_NAME

_OUTCOME_CODES = {item.value: code for code, item in enumerate(OUTCOMES)}
_CAUSE_CODES: dict[str | None, int] = {item.value: code for code, item in enumerate(CAUSES)}
_CAUSE_CODES[None] = UNKNOWN
_KEY_LIMIT = 1 << 31
_NAMED = 5


@dataclass(frozen=True)
class Manifest:
    """The manifest of a study; `data` is the whole of it, the properties what others rely on."""

    data: Mapping[str, Any]

    @property
    def study(self) -> str:
        """The study's id."""
        return str(self.data["study"])

    @property
    def parameter_sets(self) -> tuple[str, ...]:
        """Ids in the order of the study's design."""
        return tuple(str(item["id"]) for item in self.data["parameter_sets"])

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names in the order of the study's design."""
        return tuple(str(item["name"]) for item in self.data["tasks"])

    @property
    def baseline(self) -> str | None:
        """Id of the set that the others are compared with."""
        baseline = self.data.get("baseline")
        return None if baseline is None else str(baseline)

    @property
    def samples(self) -> int | None:
        """How many samples were planned per task and parameter set."""
        samples = self.data.get("samples")
        return samples if isinstance(samples, int) else None

    @property
    def equal_sets(self) -> tuple[tuple[str, str], ...]:
        """Pairs of sets between which no contrast can be made."""
        return tuple((str(first), str(second)) for first, second in self.data.get("equal_sets", ()))

    @property
    def agent(self) -> Mapping[str, Any]:
        """What is known of the agent."""
        agent = self.data.get("agent")
        return agent if isinstance(agent, Mapping) else {}

    @property
    def backend(self) -> Mapping[str, Any]:
        """The fields of `backends.base.EngineInfo`."""
        backend = self.data.get("backend")
        return backend if isinstance(backend, Mapping) else {}

    @property
    def is_finished(self) -> bool:
        """Whether the study came to its end."""
        return self.data.get("ended_at") is not None


@dataclass
class Study:
    """A study on disk, see `load_study`; every reading goes through the journal as it is then.

    A half-written last line (the study is running, or its machine died) is passed over. Of records
    with the same task, parameter set, sample and attempt the first counts.
    """

    directory: Path
    manifest: Manifest

    @property
    def journal(self) -> Path:
        """The file with the records."""
        return self.directory / JOURNAL_NAME

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and bytes of every whole line that is not blank."""
        try:
            with self.journal.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    is_last = not line.endswith(b"\n")
                    is_whole = is_record(line) if is_last else not line.isspace()
                    if is_whole:
                        yield number, line
                    if is_last:
                        return  # the writer goes on meanwhile: what follows is half a line
        except FileNotFoundError:
            return  # no trial has ended yet
        except OSError as error:
            raise UsageError(f"{self.journal}: cannot be read: {error.strerror}") from error

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each trial's record as a dict, in the order in which they were written.

        Raises:
            UsageError: a line is not a record; the message names file and line.
        """
        return (record for _, record in self._numbered())

    def _numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield first records with the numbers of their lines."""
        seen = set()
        for number, line in self.lines():
            record = self._parse(number, line)
            try:
                key = tuple(record[name] for name in ("task", "parameter_set", "sample", "attempt"))
                is_new = key not in seen
            except (KeyError, TypeError) as error:
                raise self._refusal(number, error) from error
            if is_new:
                seen.add(key)
                yield number, record

    def trial_records(self) -> Iterator[TrialRecord]:
        """Yield each trial's record, every field checked.

        Raises:
            UsageError: a line is not a record; the message names file, line and field.
        """
        validate = _record_validator()
        for number, record in self._numbered():
            yield validate(record, f"{self.journal}:{number}")

    def table(self, accounts: Accounts | None = None) -> OutcomeTable:
        """Return the outcomes as columns; attempts that measured nothing are none.

        Everything is added up in `accounts` on the way. Tasks and parameter sets stand in the order
        of the manifest; any that it does not name follow in order of their first record.

        Raises:
            UsageError: a line is not a record; the message names file and line.
        """
        table = OutcomeTable()
        tasks = {name: index for index, name in enumerate(self.manifest.tasks)}
        sets = {name: index for index, name in enumerate(self.manifest.parameter_sets)}
        seen: set[int] = set()
        refused: dict[int, int] = {}
        for number, line in self.lines():
            record = self._parse(number, line)
            try:
                is_new = _add(table, record, tasks, sets, seen, refused)
                if is_new and accounts is not None:
                    accounts.take(record)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                raise self._refusal(number, error) from error
        table.tasks.extend(tasks)
        table.parameter_sets.extend(sets)
        return table

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._refusal(number, error) from error
        if not isinstance(record, dict):
            raise UsageError(f"{self.journal}:{number}: not a JSON object")
        if record.get("schema_version") == SCHEMA_VERSION:
            return record
        return upgrade(record, RECORD_UPGRADES, where=f"{self.journal}:{number}")

    def _refusal(self, number: int, error: Exception) -> UsageError:
        problem = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        return UsageError(f"{self.journal}:{number}: not a trial's record: {problem}")


def load_study(path: Path) -> Study:
    """Open a study: its folder, or one of the two files in it.

    Raises:
        UsageError: there is no study, or its manifest cannot be used.
    """
    directory = path.parent if path.is_file() else path
    file = directory / MANIFEST_NAME
    try:
        data = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise UsageError(_no_study(path, directory)) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{file}: not a JSON object")
    return Study(directory, _manifest_of(upgrade(data, MANIFEST_UPGRADES, where=str(file)), file))


def _no_study(path: Path, directory: Path) -> str:
    """Say that there is no study, and name those below, the newest first."""
    if path.is_file():
        return f"{path}: a file beside which there is no {MANIFEST_NAME}; name a study's folder"
    try:
        studies = [item.parent for item in directory.glob(f"*/{MANIFEST_NAME}")]
        studies.sort(key=lambda item: (item / MANIFEST_NAME).stat().st_mtime, reverse=True)
    except OSError:
        studies = []
    if not studies:
        return f"{path}: no study here, since there is no {MANIFEST_NAME}"
    names = [str(item) for item in studies[:_NAMED]]
    more = f" and {len(studies) - _NAMED} more" if len(studies) > _NAMED else ""
    what = "a study" if len(studies) == 1 else f"{len(studies)} studies, newest first"
    return f"{path}: a folder with {what}; name one: {', '.join(names)}{more}"


def table_of(
    records: Iterable[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    accounts: Accounts | None = None,
) -> OutcomeTable:
    """Return records that are still in memory as columns, in the order of their manifest."""
    known = Manifest(manifest)
    table = OutcomeTable()
    tasks = {name: index for index, name in enumerate(known.tasks)}
    sets = {name: index for index, name in enumerate(known.parameter_sets)}
    seen: set[int] = set()
    refused: dict[int, int] = {}
    for record in records:
        if _add(table, record, tasks, sets, seen, refused) and accounts is not None:
            accounts.take(record)
    table.tasks.extend(tasks)
    table.parameter_sets.extend(sets)
    return table


def _manifest_of(data: dict[str, Any], file: Path) -> Manifest:
    """Check what the properties of `Manifest` rely on."""
    if not isinstance(data.get("study"), str):
        raise UsageError(f"{file}: study is missing or not text")
    manifest = Manifest(data)
    for name in ("parameter_sets", "tasks", "equal_sets"):
        try:
            getattr(manifest, name)
        except (KeyError, TypeError, ValueError):
            raise UsageError(
                f"{file}: {name} is missing or not as this program writes it"
            ) from None
    return manifest


def _add(
    table: OutcomeTable,
    record: Mapping[str, Any],
    tasks: dict[str, int],
    sets: dict[str, int],
    seen: set[int],
    refused: dict[int, int],
) -> bool:
    """Append one record to the columns: written out, since a million of them are read.

    Returns whether it is the first of its kind. One that measured nothing is no row, and the
    attempts after it (`refused` counts them) are numbered as if it had not been.
    """
    name, set_id = record["task"], record["parameter_set"]
    if type(name) is not str or type(set_id) is not str:
        raise TypeError("task and parameter_set must be text")
    task = tasks.setdefault(name, len(tasks))
    parameter_set = sets.setdefault(set_id, len(sets))
    sample, attempt = record["sample"], record["attempt"]
    if not (0 <= sample < _KEY_LIMIT and 0 <= attempt < _KEY_LIMIT):
        raise ValueError(f"sample and attempt must be from 0 to {_KEY_LIMIT - 1}")
    trial = (task << 96) | (parameter_set << 64) | (sample << 32)
    key = trial | attempt
    if key in seen:
        return False
    seen.add(key)
    if record["cause"] in UNMEASURED:
        refused[trial] = refused.get(trial, 0) + 1
        return True
    table.task.append(task)
    table.parameter_set.append(parameter_set)
    table.sample.append(sample)
    table.attempt.append(attempt - refused.get(trial, 0) if refused else attempt)
    block = record["block"]
    table.block.append(UNKNOWN if block is None else block)
    table.outcome.append(_code(_OUTCOME_CODES, "outcome", record))
    table.cause.append(_code(_CAUSE_CODES, "cause", record))
    kills = record["oom_kills"]
    table.oom_kills.append(UNKNOWN if kills is None else kills)
    table.started.append(_timestamp(record["started_at"]))
    periods = record["cpu_periods"]
    throttled = record["throttled_periods"]
    table.throttled_share.append(
        throttled / periods if periods and throttled is not None else math.nan
    )
    return True


def _code(codes: Mapping[Any, int], name: str, record: Mapping[str, Any]) -> int:
    code = codes.get(record[name])
    if code is None:
        raise ValueError(f"unknown {name} {record[name]!r}")
    return code


def _timestamp(text: str | None) -> float:
    """Return seconds since 1970; a time without a zone is UTC."""
    if text is None:
        return math.nan
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


@cache
def _record_validator() -> Callable[[Mapping[str, Any], str], TrialRecord]:
    """Return what makes a `TrialRecord` of a line's values, strictly typed."""
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(TrialRecord)

    def validate(values: Mapping[str, Any], where: str) -> TrialRecord:
        try:
            return adapter.validate_json(json.dumps(values), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"{where}: {place}: {first['msg']}") from error

    return validate
