"""Whether results moved while the study ran, whatever the parameter set."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

SEGMENTS = 5
RESAMPLES = 1_999
_SEED = 20_260_103
_CELLS = 4_000_000
_TIE_TOLERANCE = 1e-9

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Drift:
    """Results by time of the run, within tasks.

    The blocks are cut into equally large segments of time. `deviations` are the segments' means of
    a block's result minus its task's mean; `starts` the first start in each, seconds since 1970
    or block numbers. `method` is permutation or, for large studies, chi_square.
    """

    n_tasks: int
    n_blocks: int
    starts: tuple[float, ...]
    deviations: tuple[float, ...]
    p_value: float
    method: str


def drift(task: IndexArray, time: FloatArray, result: FloatArray) -> Drift | None:
    """Test whether results depend on when a block ran, permuting blocks within tasks.

    Args:
        task: The task of every block as an index from 0, shape (blocks,).
        time: When it started, any unit that orders blocks.
        result: Its mean over the parameter sets, less what the sets differ by.

    Returns:
        None if no task has two blocks, or all started at once.
    """
    repeated = np.bincount(task)[task] >= 2
    task, time, result = _in_canonical_order(task[repeated], time[repeated], result[repeated])
    if len(task) == 0 or float(np.ptp(time)) == 0:
        return None
    which, sizes = task, np.bincount(task)
    residual = result - (np.bincount(which, weights=result) / sizes)[which]
    residual[np.abs(residual) < _TIE_TOLERANCE] = 0.0
    segment = _segments(time)
    if int(segment.max()) == 0:
        return None
    p_value, method = _test(which, sizes, segment, residual)
    number = np.bincount(segment)
    sums = np.bincount(segment, weights=residual)
    starts = np.full(len(number), np.inf)
    np.minimum.at(starts, segment, time)
    return Drift(
        n_tasks=len(sizes),
        n_blocks=len(which),
        starts=tuple(float(value) for value in starts),
        deviations=tuple(float(value) for value in sums / number),
        p_value=p_value,
        method=method,
    )


def _in_canonical_order(
    task: IndexArray, time: FloatArray, result: FloatArray
) -> tuple[IndexArray, FloatArray, FloatArray]:
    """Sort blocks by task and time, and number the tasks by their first block.

    The names and the order of tasks then cannot change which blocks a random draw hits.
    """
    order = np.lexsort((result, time, task))
    task, time, result = task[order], time[order], result[order]
    _, first, which = np.unique(task, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.lexsort((result[first], time[first]))] = np.arange(len(first))
    number = rank[which.reshape(-1)]
    order = np.argsort(number, kind="stable")
    return number[order], time[order], result[order]


def _segments(time: FloatArray) -> IndexArray:
    """Cut the run into up to `SEGMENTS` parts; blocks that started together stay together."""
    edges = np.quantile(time, np.linspace(0, 1, SEGMENTS + 1)[1:-1], method="inverted_cdf")
    raw = np.searchsorted(np.unique(edges), time, side="left")
    _, dense = np.unique(raw, return_inverse=True)
    return np.asarray(dense.reshape(-1), dtype=np.int64)


def _test(
    which: IndexArray, sizes: IndexArray, segment: IndexArray, residual: FloatArray
) -> tuple[float, str]:
    if not bool(np.any(residual)):
        return 1.0, "permutation"
    inverse = _inverse_covariance(which, sizes, segment, residual)
    sums = np.bincount(segment, weights=residual)
    observed = float(sums @ inverse @ sums)
    if len(residual) * RESAMPLES > _CELLS:
        freedom = int(np.linalg.matrix_rank(inverse))
        return float(chdtrc(max(1, freedom), observed)), "chi_square"
    null = _permuted(which, segment, residual, inverse)
    hits = int(np.count_nonzero(null >= observed * (1 - _TIE_TOLERANCE)))
    return (1 + hits) / (RESAMPLES + 1), "permutation"


def _inverse_covariance(
    which: IndexArray, sizes: IndexArray, segment: IndexArray, residual: FloatArray
) -> FloatArray:
    """Return the generalised inverse of the segment sums' covariance under permutation.

    Within a task of k blocks with residual variance v (divisor k - 1), the sum over the c_g blocks
    of segment g varies by v c_g (1 - c_g / k), two segments covary by -v c_g c_h / k.
    """
    tasks, segments = len(sizes), int(segment.max()) + 1
    counts = np.bincount(which * segments + segment, minlength=tasks * segments)
    per_task = counts.reshape(tasks, segments).astype(np.float64)
    variance = np.bincount(which, weights=residual**2) / (sizes - 1)
    diagonal = np.diag((per_task * variance[:, None]).sum(axis=0))
    shared = (per_task * (variance / sizes)[:, None]).T @ per_task
    inverse = np.linalg.pinv(diagonal - shared, rcond=1e-9, hermitian=True)
    return np.asarray(inverse, dtype=np.float64)


def _permuted(
    which: IndexArray, segment: IndexArray, residual: FloatArray, inverse: FloatArray
) -> FloatArray:
    """Return the statistic for each resample: residuals shuffled over their task's blocks."""
    generator = np.random.default_rng(_SEED)
    member = np.eye(len(inverse))[segment]
    sizes = np.bincount(which)[which]
    same_size = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
    null = np.empty(RESAMPLES)
    batch = max(1, 500_000 // len(residual))
    for start in range(0, RESAMPLES, batch):
        number = min(batch, RESAMPLES - start)
        sums = np.zeros((number, len(inverse)))
        for chosen in same_size:  # tasks are contiguous: one row of blocks per task
            rows = residual[chosen].reshape(-1, int(sizes[chosen[0]]))
            shuffled = generator.permuted(np.broadcast_to(rows, (number, *rows.shape)), axis=2)
            sums += shuffled.reshape(number, -1) @ member[chosen]
        null[start : start + number] = np.einsum("ij,jk,ik->i", sums, inverse, sums)
    return null
