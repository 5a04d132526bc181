"""Which trials of a study have ended, and which of them are to be tried once more."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_infranoise.model.outcome import Outcome

Trial = tuple[str, str, int]
"""Task, parameter set, sample."""

NextAttempts = dict[Trial, int]
"""For every trial on record its next attempt, 0 where there is to be none."""

DONE = 0


def read_progress(
    records: Iterable[Mapping[str, Any]], *, retry_infra_errors: bool = False
) -> NextAttempts:
    """Return which trials are on record.

    With `retry_infra_errors`, a trial whose last attempt ended by an infrastructure error gets
    another one; its earlier attempts stay, and it is the first that counts.
    """
    last: dict[Trial, tuple[int, str]] = {}
    for record in records:
        trial = (record["task"], record["parameter_set"], record["sample"])
        attempt = (record["attempt"], record["outcome"])
        last[trial] = max(last.get(trial, attempt), attempt)
    return {
        trial: attempt + 1 if retry_infra_errors and outcome == Outcome.INFRA_ERROR else DONE
        for trial, (attempt, outcome) in last.items()
    }


def nested(progress: NextAttempts) -> dict[str, dict[str, dict[str, int]]]:
    """Return progress as JSON knows it: by task, parameter set and sample."""
    tree: dict[str, dict[str, dict[str, int]]] = {}
    for (task, parameter_set, sample), attempt in progress.items():
        tree.setdefault(task, {}).setdefault(parameter_set, {})[str(sample)] = attempt
    return tree


def flat(tree: Mapping[str, Mapping[str, Mapping[str, int]]]) -> NextAttempts:
    """Return what `nested` was made of."""
    return {
        (task, parameter_set, int(sample)): attempt
        for task, by_set in tree.items()
        for parameter_set, by_sample in by_set.items()
        for sample, attempt in by_sample.items()
    }
