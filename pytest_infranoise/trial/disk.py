"""A disk that is full because the task's own limit was reached: the task's failure, no error."""

from contextlib import suppress

from pytest_infranoise.backends.base import Sandbox
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.units import format_size

_PROBE = """
probe=/.infranoise-probe
dd if=/dev/zero of="$probe" bs=262144 count=1 conv=fsync 2>/dev/null
status=$?
rm -f "$probe"
exit "$status"
"""
"""Writes a quarter of a megabyte."""


def full_disk(sandbox: Sandbox) -> str | None:
    """Say that a sandbox's disk limit is reached; None where it is not, or there is no limit."""
    with suppress(SandboxError):
        limit = sandbox.effective_limits().values.get("storage_limit_bytes")
        if limit is None:
            return None
        if sandbox.exec(["sh", "-c", _PROBE]).exit_code not in (0, None):
            return f"the disk limit of {format_size(int(limit))} was reached"
    return None
