"""Resources of task formats that declare none: the user's defaults, or a refusal."""

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.tasks.resources import CPU_OPTION, MEMORY_OPTION, ResourceDefaults
from pytest_infranoise.units import format_size


def undeclared_spec(
    defaults: ResourceDefaults, *, where: str, form: str
) -> tuple[ResourceSpec, tuple[str, ...]]:
    """Return the spec of a task whose format has no resources, and a note on each default.

    Args:
        defaults: the user's; no cores are no CPU guarantee and no quota.
        where: the file, for the message.
        form: how the format is called.

    Raises:
        UsageError: there is no default for memory.
    """
    if defaults.memory_bytes is None:
        raise UsageError(
            f"{where}: {form} declares no memory, and no limit is ever invented; name a default "
            f"with --infra-default-memory or the ini option {MEMORY_OPTION}"
        )
    size = format_size(defaults.memory_bytes)
    notes = [f"memory {size} from {MEMORY_OPTION}: {form} declares none"]
    if defaults.cpu_cores is not None:
        notes.append(f"cpus {defaults.cpu_cores:g} from {CPU_OPTION}: {form} declares none")
    return ResourceSpec.declared(defaults.memory_bytes, defaults.cpu_cores), tuple(notes)
