"""A Python test that carries `@pytest.mark.infra(...)`, as a `Task`."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.model.task import ImageSource, Task
from pytest_infranoise.tasks.resources import CPU_OPTION, MEMORY_OPTION, check_memory
from pytest_infranoise.units import (
    format_size,
    parse_cores,
    parse_seconds,
    parse_size,
)

MARKER = "infra"
ARGUMENTS = ("memory", "cpus", "image", "timeout")


@dataclass(frozen=True, slots=True)
class MarkerDefaults:
    """What the ini file gives a marker that leaves an argument out; None for no default."""

    memory_bytes: int | None = None
    cpu_cores: float | None = None
    image: str | None = None
    timeout_seconds: float | None = None


def task_from_marker(
    name: str, kwargs: Mapping[str, Any], defaults: MarkerDefaults, *, source: str = ""
) -> Task:
    """Return the task that a marked test is.

    Args:
        name: unique within the study: the test's node id.
        kwargs: the marker's keywords: `memory` (a size), `cpus` (cores), `image` (a name),
            `timeout` (seconds); one that is absent or None falls back to the default.
        defaults: the ini file's.
        source: the test's source, so that an edited test is another task in the digest.

    Raises:
        UsageError: one line that names the test, the argument and the fix.
    """
    where = f"{name}: {MARKER} marker"
    for key in kwargs:
        if key not in ARGUMENTS:
            known = ", ".join(ARGUMENTS)
            raise UsageError(f"{where}: unknown argument {key}; it takes {known}")
    given = {key: value for key, value in kwargs.items() if value is not None}
    notes: list[str] = []
    memory = _memory(given, defaults, where, notes)
    cores = _cores(given, defaults, where, notes)
    image = _image(given, defaults, where)
    timeout = defaults.timeout_seconds
    if "timeout" in given:
        timeout = parse_seconds(given["timeout"], where=f"{where}: timeout")
    return Task(
        name=name,
        digest=_digest(name, memory, cores, image, timeout, source),
        spec=ResourceSpec.declared(memory, cores),
        image=ImageSource(docker_image=image),
        agent_timeout_seconds=timeout,
        notes=tuple(notes),
    )


def _memory(
    given: Mapping[str, Any], defaults: MarkerDefaults, where: str, notes: list[str]
) -> int:
    if "memory" in given:
        place = f"{where}: memory"
        return check_memory(parse_size(given["memory"], where=place), where=place)
    if defaults.memory_bytes is None:
        raise UsageError(
            f'{where}: memory is not given, and no limit is ever invented; write memory="512M", '
            f"or name a default with the ini option {MEMORY_OPTION}"
        )
    size = format_size(defaults.memory_bytes)
    notes.append(f"memory {size} from {MEMORY_OPTION}: the marker gives none")
    return defaults.memory_bytes


def _cores(
    given: Mapping[str, Any], defaults: MarkerDefaults, where: str, notes: list[str]
) -> float | None:
    if "cpus" in given:
        return parse_cores(given["cpus"], where=f"{where}: cpus")
    if defaults.cpu_cores is not None:
        notes.append(f"cpus {defaults.cpu_cores:g} from {CPU_OPTION}: the marker gives none")
    return defaults.cpu_cores


def _image(given: Mapping[str, Any], defaults: MarkerDefaults, where: str) -> str | None:
    """Return the image's name; None is for a backend without images to accept or refuse."""
    if "image" not in given:
        return defaults.image
    image = given["image"]
    if not isinstance(image, str) or not image.strip():
        raise UsageError(
            f"{where}: image: {image!r} is not an image's name; write for example "
            '"python:3.11-slim"'
        )
    return image


def _digest(*parts: str | int | float | None) -> str:
    """Return a digest of JSON text; whole numbers read the same as floats."""
    parts = tuple(float(part) if isinstance(part, int) else part for part in parts)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
