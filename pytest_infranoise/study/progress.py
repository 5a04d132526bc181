"""Which trials of a study have ended, and which of them are to be tried once more."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.study.accounts import Trial, is_measured, trial_of_record

NextAttempts = dict[Trial, int]
"""For every trial on record its next attempt, 0 where there is to be none."""

DONE = 0


def read_progress(
    records: Iterable[Mapping[str, Any]], *, retry_infra_errors: bool = False
) -> NextAttempts:
    """Return which trials are on record.

    A trial of which no attempt measured anything is still to be run. With `retry_infra_errors`, a
    trial whose last attempt ended by an infrastructure error gets another one; its earlier attempts
    stay, and it is the first that measured something that counts.
    """
    last: dict[Trial, tuple[int, str]] = {}
    measured: set[Trial] = set()
    for record in records:
        trial = trial_of_record(record)
        attempt = (record["attempt"], record["outcome"])
        last[trial] = max(last.get(trial, attempt), attempt)
        if is_measured(record):
            measured.add(trial)

    def is_open(trial: Trial, outcome: str) -> bool:
        return trial not in measured or (retry_infra_errors and outcome == Outcome.INFRA_ERROR)

    return {
        trial: attempt + 1 if is_open(trial, outcome) else DONE
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
