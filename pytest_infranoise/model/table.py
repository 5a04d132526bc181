"""The outcomes of a study as columns: a million trials in some tens of megabytes.

The columns are standard-library arrays, so that nothing here imports numpy; the analysis views them
with `numpy.frombuffer`, without a copy.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import compress
from typing import Self

from pytest_infranoise.model.outcome import Cause, Outcome

OUTCOMES = tuple(Outcome)
CAUSES = tuple(Cause)
UNKNOWN = -1
"""Stands for "no cause" and "unknown count" in integer columns; floats use NaN."""


@dataclass(slots=True)
class OutcomeTable:
    """One row per attempt of a trial that measured something, in any order.

    `attempt` numbers these attempts alone, from 1.

    `task` and `parameter_set` index into `tasks` and `parameter_sets` (in order of the study's
    design), `outcome` into `OUTCOMES`, `cause` into `CAUSES` (-1 for none). `oom_kills` is -1 where
    unknown. `started` is seconds since 1970 UTC and `throttled_share` the part of CPU periods that
    were throttled; both are NaN where unknown.
    """

    tasks: list[str] = field(default_factory=list)
    parameter_sets: list[str] = field(default_factory=list)
    task: "array[int]" = field(default_factory=lambda: array("i"))
    parameter_set: "array[int]" = field(default_factory=lambda: array("i"))
    sample: "array[int]" = field(default_factory=lambda: array("i"))
    attempt: "array[int]" = field(default_factory=lambda: array("i"))
    block: "array[int]" = field(default_factory=lambda: array("i"))
    outcome: "array[int]" = field(default_factory=lambda: array("b"))
    cause: "array[int]" = field(default_factory=lambda: array("b"))
    oom_kills: "array[int]" = field(default_factory=lambda: array("i"))
    started: "array[float]" = field(default_factory=lambda: array("d"))
    throttled_share: "array[float]" = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.outcome)

    def add(
        self,
        task: int,
        parameter_set: int,
        outcome: Outcome,
        *,
        cause: Cause | None = None,
        sample: int = 1,
        attempt: int = 1,
        block: int = UNKNOWN,
        oom_kills: int | None = None,
        started: float = float("nan"),
        throttled_share: float = float("nan"),
    ) -> None:
        """Append one attempt; `task` and `parameter_set` are indices."""
        self.task.append(task)
        self.parameter_set.append(parameter_set)
        self.sample.append(sample)
        self.attempt.append(attempt)
        self.block.append(block)
        self.outcome.append(OUTCOMES.index(outcome))
        self.cause.append(UNKNOWN if cause is None else CAUSES.index(cause))
        self.oom_kills.append(UNKNOWN if oom_kills is None else oom_kills)
        self.started.append(started)
        self.throttled_share.append(throttled_share)

    def up_to_sample(self, last: int) -> Self:
        """Return a table of the rows whose sample is at most `last`."""
        return self._rows(sample <= last for sample in self.sample)

    def without_set(self, name: str) -> Self:
        """Return a table that knows nothing of one parameter set; ValueError if there is none."""
        index = self.parameter_sets.index(name)
        rest = self._rows(item != index for item in self.parameter_set)
        rest.parameter_sets.remove(name)
        rest.parameter_set = array("i", (item - (item > index) for item in rest.parameter_set))
        return rest

    def _rows(self, chosen: Iterable[bool]) -> Self:
        flags = bytes(chosen)
        columns = [getattr(self, item.name) for item in fields(self)[2:]]
        picked = [array(column.typecode, compress(column, flags)) for column in columns]
        return type(self)(list(self.tasks), list(self.parameter_sets), *picked)
