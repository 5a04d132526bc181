"""What a study has beside its outcomes: attempts that measured nothing, and what agents have used.

Where the model's provider refused to work, all parameter sets share the reason, so such an attempt
is in no rate: readers of outcomes pass it over (`measured`), and it is counted here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.usage import UsageTotals

Trial = tuple[str, str, int]
"""Task, parameter set, sample."""


def is_measured(record: Mapping[str, Any]) -> bool:
    """Whether an attempt says anything about its parameter set."""
    return bool(record["cause"] != Cause.MODEL_API)


def trial_of_record(record: Mapping[str, Any]) -> Trial:
    """Return which trial a record is an attempt of."""
    return (record["task"], record["parameter_set"], record["sample"])


def measured(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the attempts that measured something, numbered as if there had been no others.

    A trial's attempts must come in their order, as a journal has them.
    """
    refused: dict[Trial, int] = {}
    for record in records:
        trial = trial_of_record(record)
        if not is_measured(record):
            refused[trial] = refused.get(trial, 0) + 1
        elif trial in refused:
            yield {**record, "attempt": record["attempt"] - refused[trial]}
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
    _refused: dict[Trial, set[int]] = field(default_factory=dict)
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
        is_refused = not is_measured(record)
        if is_refused or record["attempt"] > 1:
            trial = trial_of_record(record)
            self._last[trial] = max(record["attempt"], self._last.get(trial, 0))
            if is_refused:
                self._refused.setdefault(trial, set()).add(record["attempt"])

    @property
    def api_errors(self) -> int:
        """Attempts that the model's provider refused."""
        return sum(map(len, self._refused.values()))

    @property
    def refused_trials(self) -> int:
        """Trials of which at least one attempt was refused."""
        return len(self._refused)

    @property
    def unmeasured(self) -> list[Trial]:
        """Trials of which every attempt so far was refused."""
        return [
            trial for trial, attempts in self._refused.items() if len(attempts) >= self._last[trial]
        ]
