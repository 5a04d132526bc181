"""Values that the tests of sandboxes share."""

from dataclasses import replace
from typing import Any

from pytest_infranoise.backends.base import Backend, SandboxRequest
from pytest_infranoise.model.resources import Allocation, ResourceSpec
from pytest_infranoise.model.task import ImageSource, Task
from pytest_infranoise.units import MIB

BUSYBOX = "busybox:infranoise-test"
PYTHON = "python:3.11-slim-bookworm"


def make_task(**changes: Any) -> Task:
    """A task on the small image."""
    task = Task(
        name="conformance",
        digest="0",
        spec=ResourceSpec.declared(32 * MIB, None),
        image=ImageSource(docker_image=BUSYBOX),
    )
    return replace(task, **changes)


def allocation(
    memory_limit_bytes: int | None = 32 * MIB,
    cpu_limit_cores: float | None = None,
    *,
    memory_guarantee_bytes: int = 32 * MIB,
    cpu_guarantee_cores: float | None = None,
) -> Allocation:
    return Allocation(
        memory_guarantee_bytes, memory_limit_bytes, cpu_guarantee_cores, cpu_limit_cores
    )


def request_for(backend: Backend, study: str, given: Allocation, **changes: Any) -> SandboxRequest:
    task = changes.pop("task", None) or make_task()
    values: dict[str, Any] = {
        "study": study,
        "trial": "conformance::1x-s1-a1",
        "owner": "tests",
        "task": task,
        "image": backend.prepare(task, lambda line: None),
        "allocation": given,
    }
    return SandboxRequest(**{**values, **changes})
