"""The same failure of the provider over and over: a run that goes on would learn nothing."""

from collections.abc import Mapping
from typing import Any

from pytest_infranoise.model.outcome import Cause

_OF_PROVIDER = frozenset(
    {
        Cause.IMAGE,
        Cause.SANDBOX_START,
        Cause.SANDBOX_LOST,
        Cause.ENGINE,
        Cause.HARNESS,
        Cause.WORKER_LOST,
    }
)
"""What no parameter set and no agent brings about; kills and verifiers are results."""

_NAMED = 3


class Repeats:
    """Counts failures of one cause in a row, in the order in which records arrive.

    `limit` is how many are too many, 0 for no number. Attempts that wait for an engine say nothing
    here.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cause: str | None = None
        self._tasks: list[str] = []

    def take(self, record: Mapping[str, Any]) -> str | None:
        """Note a record; return why to stop once it is one too many."""
        cause = record["cause"]
        if cause == Cause.ENGINE_AWAY:
            return None
        if cause not in _OF_PROVIDER:
            self._cause, self._tasks = None, []
            return None
        if cause != self._cause:
            self._cause, self._tasks = cause, []
        self._tasks.append(record["task"])
        if len(self._tasks) != self._limit:
            return None
        names = list(dict.fromkeys(self._tasks))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return (
            f"{self._limit} trials in a row ended by {cause} ({', '.join(names[:_NAMED])}{more}; "
            f"--infra-max-consecutive-infra); the last: {record['detail']}"
        )
