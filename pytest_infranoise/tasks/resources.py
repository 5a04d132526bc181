"""What a task file says about memory and CPU, as a guarantee and a kill threshold.

No limit is ever invented. Older harnesses gave 2048 MB to a task that declares no memory and newer
ones run it without a limit, so such a task is two different tests: it is refused until the user
names the default.
"""

import math
from dataclasses import dataclass
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.tasks.place import Place
from pytest_infranoise.tasks.schema import EnvironmentTable, InfranoiseTable, unknown_words
from pytest_infranoise.units import (
    MIB,
    format_cores,
    format_size,
    parse_cores,
    parse_size,
    whole_number,
)

MEMORY_OPTION = "infra_default_memory"
CPU_OPTION = "infra_default_cpus"

LAST_SCHEMA_WITH_DEFAULTS = (1, 1)
SCHEMA_DEFAULT_CORES = 1.0
MINIMUM_MEMORY_BYTES = MIB


@dataclass(frozen=True, slots=True)
class ResourceDefaults:
    """What the user gives tasks that declare nothing: bytes and cores, None for no default."""

    memory_bytes: int | None = None
    cpu_cores: float | None = None


def resource_spec(
    environment: EnvironmentTable,
    band: InfranoiseTable,
    *,
    schema: tuple[int, int],
    defaults: ResourceDefaults,
    place: Place,
) -> tuple[ResourceSpec, tuple[str, ...]]:
    """Return what the task declares, and a note on each default that was used.

    In each dimension a missing end of the `[metadata.infranoise]` band is the declared number;
    where nothing is declared, the other end; where that is missing too, the default.

    Raises:
        UsageError: a figure is malformed, two figures contradict each other, or no memory is
            declared and there is no default.
    """
    notes: list[str] = []
    memory = _memory(environment, band, schema, defaults, place, notes)
    cores = _cores(environment, band, schema, defaults, place, notes)
    return ResourceSpec(*memory, *cores), tuple(notes)


def spec_or(environment: EnvironmentTable, other: ResourceSpec, place: Place) -> ResourceSpec:
    """Return what an environment declares; in a dimension where it declares nothing, `other`."""
    memory = _declared_memory(environment, place)
    cores = _cores_or_none(environment.cpus, place, "environment", "cpus")
    return ResourceSpec(
        other.memory_guarantee_bytes if memory is None else memory,
        other.memory_limit_bytes if memory is None else memory,
        other.cpu_guarantee_cores if cores is None else cores,
        other.cpu_limit_cores if cores is None else cores,
    )


def check_memory(size_bytes: int, *, where: str) -> int:
    """Return `size_bytes`, or raise a `UsageError` if no process could start in it."""
    if size_bytes < MINIMUM_MEMORY_BYTES:
        raise UsageError(
            f"{where}: {format_size(size_bytes)} is too little for any process; a number without "
            "a suffix is bytes, write for example 512M"
        )
    return size_bytes


def _memory(
    environment: EnvironmentTable,
    band: InfranoiseTable,
    schema: tuple[int, int],
    defaults: ResourceDefaults,
    place: Place,
    notes: list[str],
) -> tuple[int, int]:
    declared = _declared_memory(environment, place)
    guarantee, limit = (
        _size_or_none(
            getattr(band, f"memory_{end}"), place, "metadata", "infranoise", f"memory_{end}"
        )
        for end in ("guarantee", "limit")
    )
    known = [value for value in (declared, guarantee, limit) if value is not None]
    if not known:
        if defaults.memory_bytes is None:
            raise UsageError(_no_memory(schema, place) + unknown_words(environment))
        size = format_size(defaults.memory_bytes)
        notes.append(f"memory {size} from {MEMORY_OPTION}: the task declares none")
        known = [defaults.memory_bytes]
    guarantee = known[0] if guarantee is None else guarantee
    limit = known[0] if limit is None else limit
    if guarantee > limit:
        where = place.key("metadata", "infranoise", "memory_guarantee")
        raise UsageError(_above(where, format_size(guarantee), "memory_limit", format_size(limit)))
    return guarantee, limit


def declared_storage(environment: EnvironmentTable, place: Place) -> int | None:
    """Return the disk space that a task declares, in bytes; None where it declares none.

    Raises:
        UsageError: it is malformed, or its two spellings disagree.
    """
    size = environment.storage
    if size is not None:
        size = parse_size(size, where=place.key("environment", "storage"))
    return _in_megabytes(environment, "storage", size, place)


def _declared_memory(environment: EnvironmentTable, place: Place) -> int | None:
    size = _size_or_none(environment.memory, place, "environment", "memory")
    return _in_megabytes(environment, "memory", size, place)


def _in_megabytes(
    environment: EnvironmentTable, name: str, size: int | None, place: Place
) -> int | None:
    """Return a size with its other spelling, a whole number of MB, taken into account."""
    written, where = getattr(environment, f"{name}_mb"), place.key("environment", f"{name}_mb")
    if written is None:
        return size
    megabytes = whole_number(written)
    if megabytes is None or megabytes <= 0:
        raise UsageError(
            f"{where}: {written!r} is not a whole number of MB{_megabytes_meant(written, name)}"
        )
    if size is not None and size != megabytes * MIB:
        raise UsageError(
            f"{where}: {megabytes} disagrees with {name} = {getattr(environment, name)!r} "
            f"({format_size(size)}); keep one of the two"
        )
    return megabytes * MIB


def _megabytes_meant(written: Any, name: str) -> str:
    """Return the fix for a number of MB that is none, in the value's own terms."""
    if isinstance(written, str) and written.strip().rstrip("bBiI")[-1:].upper() in "KMGT":
        return f"; a size with a unit is written {name} = {written!r}"
    if isinstance(written, float) and math.isfinite(written) and written > 0:
        return f"; write {math.ceil(written)}"
    return "; write the number alone, for example 512"


def _size_or_none(value: Any, place: Place, *key: str) -> int | None:
    if value is None:
        return None
    where = place.key(*key)
    return check_memory(parse_size(value, where=where), where=where)


def _no_memory(schema: tuple[int, int], place: Place) -> str:
    history = ""
    if schema <= LAST_SCHEMA_WITH_DEFAULTS:
        history = " (older harnesses gave such a task 2048M)"
    return (
        f"{place.key('environment', 'memory_mb')}: not set, and no limit is ever invented; declare "
        f"it, or name a default with the ini option {MEMORY_OPTION}{history}"
    )


def _cores(
    environment: EnvironmentTable,
    band: InfranoiseTable,
    schema: tuple[int, int],
    defaults: ResourceDefaults,
    place: Place,
    notes: list[str],
) -> tuple[float | None, float | None]:
    declared = _cores_or_none(environment.cpus, place, "environment", "cpus")
    guarantee, limit = (
        _cores_or_none(getattr(band, f"cpus_{end}"), place, "metadata", "infranoise", f"cpus_{end}")
        for end in ("guarantee", "limit")
    )
    known = [value for value in (declared, guarantee, limit) if value is not None]
    if not known:
        default = _default_cores(schema, defaults, notes)
        return default, default
    guarantee = known[0] if guarantee is None else guarantee
    limit = known[0] if limit is None else limit
    if guarantee > limit:
        where = place.key("metadata", "infranoise", "cpus_guarantee")
        raise UsageError(_above(where, format_cores(guarantee), "cpus_limit", format_cores(limit)))
    return guarantee, limit


def _cores_or_none(value: Any, place: Place, *key: str) -> float | None:
    return None if value is None else parse_cores(value, where=place.key(*key))


def _default_cores(
    schema: tuple[int, int], defaults: ResourceDefaults, notes: list[str]
) -> float | None:
    if schema <= LAST_SCHEMA_WITH_DEFAULTS:
        major, minor = schema
        notes.append(f"cpus 1, the default of schema {major}.{minor}: the task declares none")
        return SCHEMA_DEFAULT_CORES
    if defaults.cpu_cores is not None:
        cores = f"{defaults.cpu_cores:g}"
        notes.append(f"cpus {cores} from {CPU_OPTION}: the task declares none")
    return defaults.cpu_cores


def _above(where: str, guarantee: str, limit_key: str, limit: str) -> str:
    return (
        f"{where}: the guarantee {guarantee} is above the limit {limit}; lower it or raise "
        f"{limit_key}"
    )
