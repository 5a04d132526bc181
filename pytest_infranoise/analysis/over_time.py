"""Drift: did results move with the time of the run?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_infranoise.analysis.contrasts import Events
from pytest_infranoise.analysis.results import Measure
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.tally import Rows, Tally
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.table import OUTCOMES, UNKNOWN
from pytest_infranoise.statistics.drift import Drift, drift

_DENSE_PER_ROW = 4


@dataclass(frozen=True, slots=True)
class _Blocks:
    """One task and sample in every set: `which` is the block of each row."""

    which: NDArray[np.int64]
    task: NDArray[np.int64]
    start: NDArray[np.float64]


def drifts(
    counts: Tally, measures: dict[Measure, Events], settings: AnalysisSettings
) -> dict[Measure, Drift]:
    """Return the drift of success and infra errors; nothing where times or blocks are unknown.

    Sets that ran one after another share no block in time, so that drift could not be told from
    the sets.
    """
    rows = counts.rows
    time = _times(rows)
    if time is None or settings.interleaved is False:
        return {}
    blocks = _blocks(rows, time)
    found = {}
    for measure in (Measure.SUCCESS, Measure.INFRA_ERROR):
        result = _results(rows, blocks, measures[measure], _occurred(rows, measure, settings))
        tested = drift(blocks.task, blocks.start, result)
        if tested is not None:
            found[measure] = tested
    return found


def _times(rows: Rows) -> NDArray[np.float64] | None:
    if len(rows.task) == 0:
        return None
    if bool(np.isfinite(rows.started).all()):
        return rows.started
    if bool((rows.block != UNKNOWN).all()):
        return rows.block.astype(np.float64)
    return None


def _blocks(rows: Rows, time: NDArray[np.float64]) -> _Blocks:
    sample = rows.sample.astype(np.int64) - int(rows.sample.min())
    span = int(sample.max()) + 1
    key = rows.task.astype(np.int64) * span + sample
    if int(key.max()) < _DENSE_PER_ROW * len(key):
        present = np.bincount(key) > 0
        distinct = np.flatnonzero(present)
        which = (np.cumsum(present) - 1)[key]
    else:
        distinct, which = np.unique(key, return_inverse=True)
    start = np.full(len(distinct), np.inf)
    np.minimum.at(start, which, time)
    return _Blocks(which.reshape(-1), distinct // span, start)


def _results(
    rows: Rows, blocks: _Blocks, events: Events, occurred: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return each block's mean over the sets, less what the sets differ by.

    Summed set by set in the order of their rates, so that the order of rows cannot show.
    """
    rates = events.events.sum(axis=0) / np.maximum(1, events.trials.sum(axis=0))
    sets, number = len(rates), len(blocks.task)
    key = blocks.which * sets + rows.parameter_set
    ran = np.bincount(key, minlength=number * sets).reshape(number, sets)
    happened = np.bincount(key[occurred], minlength=number * sets).reshape(number, sets)
    total = np.zeros(number)
    for column in np.argsort(rates, kind="stable"):
        total += happened[:, column] - ran[:, column] * rates[column]
    return np.asarray(total / ran.sum(axis=1))


def _occurred(rows: Rows, measure: Measure, settings: AnalysisSettings) -> NDArray[np.bool_]:
    kinds = [Outcome.PASSED]
    if measure is Measure.INFRA_ERROR:
        kinds = [Outcome.OOM, Outcome.INFRA_ERROR]
        if settings.timeouts_are_infra:
            kinds.append(Outcome.TIMEOUT)
    codes = np.zeros(len(OUTCOMES), dtype=bool)
    codes[[OUTCOMES.index(kind) for kind in kinds]] = True
    return np.asarray(codes[rows.outcome])
