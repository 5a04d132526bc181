"""What JUnit XML says of a trial: properties of its test case."""

from collections.abc import Mapping
from typing import Any

PREFIX = "infranoise."
NAMES = (
    "task",
    "parameter_set",
    "sample",
    "attempt",
    "outcome",
    "cause",
    "score",
    "oom_kills",
    "memory_guarantee_bytes",
    "memory_limit_bytes",
    "memory_peak_bytes",
    "memory_working_set_bytes",
    "cpu_guarantee_cores",
    "cpu_limit_cores",
    "cpu_seconds",
    "wall_seconds",
    "admission_wait_seconds",
    "image_digest",
)
"""Columns of `infranoise export` that become properties."""

_CHARACTERS = 200


def trial_properties(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of a trial's properties; what is unknown or uncapped is left out."""
    return [
        (PREFIX + name, str(value)[:_CHARACTERS])
        for name in NAMES
        if (value := record.get(name)) is not None
    ]
