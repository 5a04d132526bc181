"""A disk that is full because the task's own limit was reached: the task's failure, no error."""

import tempfile
from contextlib import suppress
from pathlib import Path

from pytest_infranoise.backends.base import Sandbox
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.units import format_size

_PROBE = "/infranoise/probe"
_PROBE_BYTES = 262144
_FULL = ("no space left", "quota exceeded")


def full_disk(sandbox: Sandbox) -> str | None:
    """Say that a sandbox's disk limit is reached; None where it is not, or there is no limit."""
    with suppress(SandboxError):
        limit = sandbox.effective_limits().values.get("storage_limit_bytes")
        if limit is None:
            return None
        if _is_full(sandbox):
            return f"the disk limit of {format_size(int(limit))} was reached"
    return None


def _is_full(sandbox: Sandbox) -> bool:
    with tempfile.TemporaryDirectory(prefix="infranoise-") as folder:
        file = Path(folder) / "probe"
        try:
            for size in (_PROBE_BYTES, 0):  # and make room again
                file.write_bytes(bytes(size))
                sandbox.put(file, _PROBE)
        except SandboxError as error:
            return any(words in str(error).lower() for words in _FULL)
    return False
