"""From one row per attempt to counts per task and parameter set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.table import CAUSES, OUTCOMES, UNKNOWN, OutcomeTable
from pytest_infranoise.statistics.contrasts import IntArray

THROTTLED_SHARE = 0.5
"""A timeout counts as throttled if at least this share of its CPU periods was throttled."""

_DENSE_KEYS = 50_000_000
_FOREIGN = (Cause.HOST_MEMORY, Cause.UNATTRIBUTED_KILL)


@dataclass(frozen=True, slots=True)
class Rows:
    """The first attempts as columns; see `OutcomeTable` for each."""

    task: NDArray[np.int32]
    parameter_set: NDArray[np.int32]
    sample: NDArray[np.int32]
    block: NDArray[np.int32]
    outcome: NDArray[np.int8]
    cause: NDArray[np.int8]
    oom_kills: NDArray[np.int32]
    started: NDArray[np.float64]
    throttled_share: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of first attempts; every array has the shape (tasks, sets) if not said otherwise.

    `outcomes` has the shape (tasks, sets, outcomes), in the order of `OUTCOMES`. `kills` are kernel
    kills at the own threshold, at least one for every `oom`; `kills_unknown` counts trials whose
    number of kills is not known. `foreign_kills` counts trials that the host's memory, or somebody
    unknown, killed. `later_attempts` and `duplicates` are totals of rows that no rate counts.
    """

    outcomes: IntArray
    ended_phase: IntArray
    kills: IntArray
    trials_with_kills: IntArray
    kills_unknown: IntArray
    foreign_kills: IntArray
    timeouts_after_kill: IntArray
    timeouts_throttled: IntArray
    rows: Rows
    later_attempts: int
    duplicates: int

    @property
    def trials(self) -> IntArray:
        """All trials that have an outcome."""
        return np.asarray(self.outcomes.sum(axis=2))

    def count(self, *outcomes: Outcome) -> IntArray:
        """The trials with one of these outcomes."""
        columns = [OUTCOMES.index(outcome) for outcome in outcomes]
        return np.asarray(self.outcomes[:, :, columns].sum(axis=2))


def tally(table: OutcomeTable) -> Tally:
    """Count the first attempt of every trial; a row that occurs twice counts once."""
    rows, later, duplicates = _first_attempts(table)
    tasks, sets = len(table.tasks), len(table.parameter_sets)
    cell = rows.task.astype(np.int64) * sets + rows.parameter_set

    def per_cell(chosen: NDArray[np.bool_]) -> IntArray:
        return np.bincount(cell[chosen], minlength=tasks * sets).reshape(tasks, sets)

    kinds = len(OUTCOMES)
    outcomes = np.bincount(cell * kinds + rows.outcome, minlength=tasks * sets * kinds)
    oom = rows.outcome == OUTCOMES.index(Outcome.OOM)
    timeout = rows.outcome == OUTCOMES.index(Outcome.TIMEOUT)
    foreign = np.isin(rows.cause, [CAUSES.index(cause) for cause in _FOREIGN])
    known = np.where(rows.oom_kills == UNKNOWN, 0, rows.oom_kills)
    own = np.where(foreign, 0, np.maximum(known, oom))
    hit = np.flatnonzero(own)
    kills = np.bincount(cell[hit], weights=own[hit], minlength=tasks * sets)
    with np.errstate(invalid="ignore"):
        throttled = rows.throttled_share >= THROTTLED_SHARE
    return Tally(
        outcomes=outcomes.reshape(tasks, sets, kinds),
        ended_phase=per_cell(oom & (rows.cause == CAUSES.index(Cause.ENDED_PHASE))),
        kills=kills.astype(np.int64).reshape(tasks, sets),
        trials_with_kills=per_cell(own > 0),
        kills_unknown=per_cell(rows.oom_kills == UNKNOWN),
        foreign_kills=per_cell(foreign),
        timeouts_after_kill=per_cell(timeout & (own > 0)),
        timeouts_throttled=per_cell(timeout & throttled),
        rows=rows,
        later_attempts=later,
        duplicates=duplicates,
    )


def _first_attempts(table: OutcomeTable) -> tuple[Rows, int, int]:
    rows = Rows(
        task=np.frombuffer(table.task, dtype=np.int32),
        parameter_set=np.frombuffer(table.parameter_set, dtype=np.int32),
        sample=np.frombuffer(table.sample, dtype=np.int32),
        block=np.frombuffer(table.block, dtype=np.int32),
        outcome=np.frombuffer(table.outcome, dtype=np.int8),
        cause=np.frombuffer(table.cause, dtype=np.int8),
        oom_kills=np.frombuffer(table.oom_kills, dtype=np.int32),
        started=np.frombuffer(table.started, dtype=np.float64),
        throttled_share=np.frombuffer(table.throttled_share, dtype=np.float64),
    )
    attempt = np.frombuffer(table.attempt, dtype=np.int32)
    key = _trial_key(rows, len(table.parameter_sets))
    if _all_distinct(key):
        return rows, 0, 0
    order = np.lexsort((rows.cause, rows.outcome, attempt, key))
    sorted_key, sorted_attempt = key[order], attempt[order]
    new_trial = np.concatenate(([True], sorted_key[1:] != sorted_key[:-1]))
    new_attempt = np.concatenate(([True], sorted_attempt[1:] != sorted_attempt[:-1]))
    distinct = int(np.count_nonzero(new_trial | new_attempt))
    firsts = np.sort(order[new_trial])
    picked = Rows(*(getattr(rows, name)[firsts] for name in Rows.__slots__))
    return picked, distinct - len(firsts), len(key) - distinct


def _trial_key(rows: Rows, sets: int) -> IntArray:
    """Return one number per task, parameter set and sample."""
    if len(rows.sample) == 0:
        return np.empty(0, np.int64)
    sample = rows.sample.astype(np.int64) - int(rows.sample.min())
    span = int(sample.max()) + 1
    return (rows.task.astype(np.int64) * sets + rows.parameter_set) * span + sample


def _all_distinct(key: IntArray) -> bool:
    if len(key) == 0:
        return True
    if int(key.max()) < _DENSE_KEYS:
        seen = np.zeros(int(key.max()) + 1, dtype=bool)
        seen[key] = True
        return int(np.count_nonzero(seen)) == len(key)
    return len(np.unique(key)) == len(key)
