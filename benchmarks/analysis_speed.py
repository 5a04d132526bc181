"""How long the analysis of a large study takes, and how much memory.

    python benchmarks/analysis_speed.py --tasks 10000 --sets 10 --samples 10

prints one line of JSON: seconds of the analysis on top of loading, peak resident memory of the
process, and the trials per second. Exits with 1 above the limits given.
"""

import argparse
import json
import resource
import sys
import time
from array import array

import numpy as np

from pytest_infranoise.analysis import Analysis, analyse, verdict_lines
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.table import OUTCOMES, OutcomeTable

MULTIPLIERS = ("1x", "1.5x", "2x", "3x", "4x", "5x", "6x", "8x", "10x", "uncapped")


def made_table(tasks: int, sets: int, samples: int, seed: int) -> OutcomeTable:
    """Return a study in randomised blocks with a trend in kills and none in success."""
    generator = np.random.default_rng(seed)
    shape = (tasks, samples, sets)
    difficulty = generator.beta(0.4, 0.4, (tasks, 1, 1))
    kill = np.linspace(0.06, 0.0, sets)[None, None, :]
    draw = generator.random(shape)
    killed = draw < kill * (1 - difficulty)
    passed = ~killed & (generator.random(shape) < difficulty)
    outcome = np.full(shape, OUTCOMES.index(Outcome.FAILED), dtype=np.int8)
    outcome[passed] = OUTCOMES.index(Outcome.PASSED)
    outcome[killed] = OUTCOMES.index(Outcome.OOM)
    task, sample, column = np.indices(shape, dtype=np.int32)
    order = generator.permutation(outcome.size)
    block = task + tasks * sample

    def packed(code: str, values: np.ndarray) -> array:  # type: ignore[type-arg]
        return array(code, values.reshape(-1)[order].tobytes())

    return OutcomeTable(
        tasks=[f"task-{index:05d}" for index in range(tasks)],
        parameter_sets=[*MULTIPLIERS[: sets - 1], MULTIPLIERS[-1]],
        task=packed("i", task),
        parameter_set=packed("i", column),
        sample=packed("i", sample + 1),
        attempt=packed("i", np.ones(shape, dtype=np.int32)),
        block=packed("i", block.astype(np.int32)),
        outcome=packed("b", outcome),
        cause=packed("b", np.where(killed, 0, -1).astype(np.int8)),
        oom_kills=packed("i", killed.astype(np.int32)),
        started=packed("d", 1.8e9 + 60.0 * block),
        throttled_share=packed("d", np.full(shape, np.nan)),
    )


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--max-seconds", type=float, default=1.5)
    parser.add_argument("--max-megabytes", type=float, default=500.0)
    options = parser.parse_args()
    table = made_table(options.tasks, options.sets, options.samples, options.seed)
    loaded = peak_megabytes()
    seconds, result = [], None
    for _ in range(options.repeat):
        begin = time.perf_counter()
        result = analyse(table)
        verdict_lines(result, verbosity=2)
        seconds.append(time.perf_counter() - begin)
    assert isinstance(result, Analysis)
    figures = {
        "trials": len(table),
        "seconds_best": round(min(seconds), 3),
        "seconds_worst": round(max(seconds), 3),
        "peak_megabytes": round(peak_megabytes()),
        "peak_megabytes_after_loading": round(loaded),
        "recommendation": result.recommendation.status,
    }
    print(json.dumps(figures))
    within = min(seconds) <= options.max_seconds and peak_megabytes() <= options.max_megabytes
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
