"""Drift: did results move with the time of the run?"""

import numpy as np
from numpy.typing import NDArray

from pytest_infranoise.analysis.contrasts import Events
from pytest_infranoise.analysis.results import Measure
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.tally import Rows, Tally
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.table import OUTCOMES, UNKNOWN
from pytest_infranoise.statistics.drift import Drift, block_results, drift


def drifts(
    counts: Tally, measures: dict[Measure, Events], settings: AnalysisSettings
) -> dict[Measure, Drift]:
    """Return the drift of success and infra errors; nothing where times or blocks are unknown.

    A block is one task and sample in every set. Sets that ran one after another share no block in
    time, so that drift could not be told from the sets.
    """
    rows = counts.rows
    time = _times(rows)
    if time is None or settings.interleaved is False:
        return {}
    sample = rows.sample.astype(np.int64) - int(rows.sample.min())
    block = rows.task.astype(np.int64) * (int(sample.max()) + 1) + sample
    found = {}
    for measure in (Measure.SUCCESS, Measure.INFRA_ERROR):
        events = measures[measure]
        occurred = _occurred(rows, measure, settings)
        per_set = events.events.sum(axis=0) / np.maximum(1, events.trials.sum(axis=0))
        blocks, mean, start = block_results(block, occurred - per_set[rows.parameter_set], time)
        result = drift(blocks // (int(sample.max()) + 1), start, mean)
        if result is not None:
            found[measure] = result
    return found


def _times(rows: Rows) -> NDArray[np.float64] | None:
    if len(rows.task) == 0:
        return None
    if bool(np.isfinite(rows.started).all()):
        return rows.started
    if bool((rows.block != UNKNOWN).all()):
        return rows.block.astype(np.float64)
    return None


def _occurred(rows: Rows, measure: Measure, settings: AnalysisSettings) -> NDArray[np.float64]:
    kinds = [Outcome.PASSED]
    if measure is Measure.INFRA_ERROR:
        kinds = [Outcome.OOM, Outcome.INFRA_ERROR]
        if settings.timeouts_are_infra:
            kinds.append(Outcome.TIMEOUT)
    codes = np.zeros(len(OUTCOMES))
    codes[[OUTCOMES.index(kind) for kind in kinds]] = 1.0
    return np.asarray(codes[rows.outcome])
