"""What a study has beside its outcomes: attempts that measured nothing, and what agents have used.

Where the model's provider refused to work, or the engine was away, all parameter sets share the
reason, so such an attempt is in no rate: readers of outcomes pass it over (`measured`), and it is
counted here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pytest_infranoise.model.outcome import UNMEASURED, Cause
from pytest_infranoise.model.usage import UsageTotals

Trial = tuple[str, str, int]
"""Task, parameter set, sample."""


def is_measured(record: Mapping[str, Any]) -> bool:
    """Whether an attempt says anything about its parameter set."""
    return record["cause"] not in UNMEASURED


def trial_of_record(record: Mapping[str, Any]) -> Trial:
    """Return which trial a record is an attempt of."""
    return (record["task"], record["parameter_set"], record["sample"])


def measured(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the attempts that measured something, numbered as if there had been no others.

    A trial's attempts must come in their order, as a journal has them.
    """
    passed_over: dict[Trial, int] = {}
    for record in records:
        trial = trial_of_record(record)
        if not is_measured(record):
            passed_over[trial] = passed_over.get(trial, 0) + 1
        elif trial in passed_over:
            yield {**record, "attempt": record["attempt"] - passed_over[trial]}
        else:
            yield record


@dataclass(slots=True)
class Accounts:
    """What is added up while the records of a study are read, all attempts of all trials.

    `overruns` are those that a watch has let pass, by parameter set id: how many attempts without
    any kill were above their threshold, and for how many seconds together.
    """

    usage: UsageTotals = field(default_factory=UsageTotals)
    overruns: dict[str, tuple[int, float]] = field(default_factory=dict)
    _unmeasured: dict[Trial, dict[int, Cause]] = field(default_factory=dict)
    _last: dict[Trial, int] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """Return the accounts of records in any order."""
        accounts = cls()
        for record in records:
            accounts.take(record)
        return accounts

    def take(self, record: Mapping[str, Any]) -> None:
        """Add one record, as the journal has it."""
        self.usage.take(record.get("usage"))
        if (seconds := record.get("overrun_seconds")) and not record.get("oom_kills"):
            number, total = self.overruns.get(record["parameter_set"], (0, 0.0))
            self.overruns[record["parameter_set"]] = (number + 1, total + seconds)
        is_open = not is_measured(record)
        if is_open or record["attempt"] > 1:
            trial = trial_of_record(record)
            self._last[trial] = max(record["attempt"], self._last.get(trial, 0))
            if is_open:
                attempts = self._unmeasured.setdefault(trial, {})
                attempts[record["attempt"]] = Cause(record["cause"])

    def attempts(self, cause: Cause) -> int:
        """Return how many attempts measured nothing for this reason."""
        return sum(list(found.values()).count(cause) for found in self._unmeasured.values())

    def trials(self, cause: Cause) -> int:
        """Return of how many trials at least one attempt measured nothing for this reason."""
        return sum(cause in found.values() for found in self._unmeasured.values())

    def left_by(self, cause: Cause) -> list[Trial]:
        """Return the trials of which no attempt measured anything, the last for this reason."""
        found = self._unmeasured
        return [trial for trial in self.unmeasured if found[trial][max(found[trial])] == cause]

    @property
    def unmeasured(self) -> list[Trial]:
        """Trials of which no attempt so far measured anything."""
        found = self._unmeasured.items()
        return [trial for trial, attempts in found if len(attempts) >= self._last[trial]]
