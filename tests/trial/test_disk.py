"""When a full disk is the task's own affair."""

from typing import Any

import pytest

from pytest_infranoise.backends.base import EffectiveLimits, StepResult
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Ending
from pytest_infranoise.trial.disk import full_disk


class Disk:
    def __init__(self, limit: int | None, exit_code: int | SandboxError | None) -> None:
        self.limit, self.exit_code = limit, exit_code

    def effective_limits(self) -> EffectiveLimits:
        return EffectiveLimits({"storage_limit_bytes": self.limit}, "test")

    def exec(self, command: Any) -> StepResult:
        if isinstance(self.exit_code, SandboxError):
            raise self.exit_code
        ending = Ending.DEADLINE if self.exit_code is None else Ending.EXIT
        return StepResult(ending, self.exit_code, 0.1)


@pytest.mark.parametrize(
    ("limit", "exit_code", "said"),
    [
        (None, 1, None),
        (64 * 1024**2, 0, None),
        (64 * 1024**2, 1, "the disk limit of 64 MiB was reached"),
        (64 * 1024**2, None, None),
        (64 * 1024**2, SandboxError(Cause.SANDBOX_LOST, "gone"), None),
    ],
)
def test_full_disks(limit: int | None, exit_code: Any, said: str | None) -> None:
    assert full_disk(Disk(limit, exit_code)) == said  # type: ignore[arg-type]
