"""When a full disk is the task's own affair."""

from pathlib import Path

import pytest

from pytest_infranoise.backends.base import EffectiveLimits
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.trial.disk import full_disk


class Disk:
    def __init__(self, limit: int | None, error: SandboxError | None) -> None:
        self.limit, self.error = limit, error

    def effective_limits(self) -> EffectiveLimits:
        return EffectiveLimits({"storage_limit_bytes": self.limit}, "test")

    def put(self, source: Path, target: str) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("limit", "error", "said"),
    [
        (None, "no space left on device", None),
        (64 * 1024**2, None, None),
        (64 * 1024**2, "no space left on device", "the disk limit of 64 MiB was reached"),
        (64 * 1024**2, "Disk quota exceeded", "the disk limit of 64 MiB was reached"),
        (64 * 1024**2, "gone", None),
    ],
)
def test_full_disks(limit: int | None, error: str | None, said: str | None) -> None:
    raised = None if error is None else SandboxError(Cause.ENGINE, f"docker, copying: {error}")
    assert full_disk(Disk(limit, raised)) == said  # type: ignore[arg-type]
