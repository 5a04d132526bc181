"""Counts of outcomes per task and parameter set, as papers and leaderboards have them, from CSV."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Outcome

COUNTED = (Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.OOM, Outcome.INFRA_ERROR)
COLUMNS = ("task", "parameter_set", *(outcome.value for outcome in COUNTED))
MAX_TRIALS = 20_000_000

_NUMBER = re.compile(r"\d{1,12}(?:\.0*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class CountRow:
    """One task in one parameter set; `counts` has the order of `COUNTED`."""

    task: str
    parameter_set: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CountTable:
    """Counts as a file gave them; tasks and parameter sets in order of their first appearance."""

    rows: Sequence[CountRow]

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks."""
        return list(dict.fromkeys(row.task for row in self.rows))

    @property
    def parameter_sets(self) -> list[str]:
        """Ids of the parameter sets."""
        return list(dict.fromkeys(row.parameter_set for row in self.rows))

    @property
    def n_trials(self) -> int:
        """All trials together."""
        return sum(sum(row.counts) for row in self.rows)

    @property
    def samples(self) -> int | None:
        """Trials per task and parameter set; None where they differ."""
        numbers = {sum(row.counts) for row in self.rows}
        return numbers.pop() if len(numbers) == 1 else None


def read_counts(path: Path) -> CountTable:
    """Read a CSV file with the columns `COLUMNS`, in any order, named by its first line.

    Raises:
        UsageError: one line that names file, line, column and fix.
    """
    try:
        with path.open("rb") as file:
            return CountTable(_Reader(path, _lines(path, file)).rows())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _lines(path: Path, file: Iterator[bytes]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{path}:{number}: not UTF-8 from byte {error.start + 1} on; save the file as UTF-8"
            ) from error


class _Reader:
    """Reads rows and knows where it is."""

    def __init__(self, path: Path, lines: Iterator[str]) -> None:
        self._path = path
        self._csv = csv.reader(lines, strict=True)

    def rows(self) -> list[CountRow]:
        order = self._header()
        rows: list[CountRow] = []
        lines: dict[tuple[str, str], int] = {}
        trials = 0
        for values in self._fields():
            row = self._row(values, order)
            key = (row.task, row.parameter_set)
            if key in lines:
                raise self._refusal(
                    f"task {row.task!r} at {row.parameter_set!r} stands in line {lines[key]} "
                    "already; add the two up"
                )
            lines[key] = self._csv.line_num
            trials += sum(row.counts)
            if trials > MAX_TRIALS:
                raise self._refusal(f"more than {MAX_TRIALS} trials; import fewer tasks at a time")
            rows.append(row)
        if not trials:
            raise UsageError(f"{self._path}: no trial: give at least one row with a count above 0")
        return rows

    def _header(self) -> list[int]:
        """Return where in a row each column of `COLUMNS` stands."""
        header = [value.strip() for value in next(self._fields(), [])]
        if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
            raise self._refusal("columns must be separated by commas")
        for name in COLUMNS:
            if header.count(name) != 1:
                problem = "missing" if name not in header else "named twice"
                raise UsageError(
                    f"{self._path}:1: column {name}: {problem}; the first line must be "
                    + ",".join(COLUMNS)
                )
        unknown = [name for name in header if name not in COLUMNS]
        if unknown:
            raise UsageError(f"{self._path}:1: column {unknown[0]!r}: not known; remove it")
        return [header.index(name) for name in COLUMNS]

    def _fields(self) -> Iterator[list[str]]:
        """Yield the fields of every line that is not blank."""
        try:
            for values in self._csv:
                if any(value.strip() for value in values):
                    yield values
        except csv.Error as error:
            raise self._refusal(f"not CSV: {error}") from error

    def _row(self, values: list[str], order: list[int]) -> CountRow:
        if len(values) != len(order):
            raise self._refusal(f"{len(values)} fields instead of {len(order)}")
        ordered = [values[place] for place in order]
        return CountRow(
            self._name("task", ordered[0]),
            self._name("parameter_set", ordered[1]),
            tuple(map(self._count, COLUMNS[2:], ordered[2:])),
        )

    def _name(self, column: str, text: str) -> str:
        name = text.strip()
        if not name or not name.isprintable():
            problem = "has unprintable characters" if name else "is empty"
            raise self._refusal(f"column {column}: {problem}; give it a name")
        return name

    def _count(self, column: str, text: str) -> int:
        if not _NUMBER.fullmatch(text.strip()):
            raise self._refusal(
                f"column {column}: {text!r} is not a whole number; write how many trials ended so, "
                "0 for none"
            )
        return int(text.strip().partition(".")[0])

    def _refusal(self, problem: str) -> UsageError:
        return UsageError(f"{self._path}:{self._csv.line_num}: {problem}")
