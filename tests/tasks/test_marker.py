"""A marker's arguments, its defaults, and its mistakes."""

from typing import Any

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import Task
from pytest_infranoise.tasks.marker import MarkerDefaults, task_from_marker
from pytest_infranoise.units import GIB, MIB

NAME = "suite/test_it.py::test_one"
NONE = MarkerDefaults()


def marked(defaults: MarkerDefaults = NONE, **arguments: Any) -> Task:
    return task_from_marker(NAME, arguments, defaults)


def test_every_argument() -> None:
    task = marked(memory="512M", cpus=1, image="python:3.11-slim", timeout=600)
    assert task.name == NAME
    assert task.spec.memory_guarantee_bytes == task.spec.memory_limit_bytes == 512 * MIB
    assert task.spec.cpu_guarantee_cores == task.spec.cpu_limit_cores == 1
    assert task.image.docker_image == "python:3.11-slim"
    assert task.image.build_context is None
    assert task.agent_timeout_seconds == 600
    assert (task.directory, task.instruction, task.solution, task.tests) == (None,) * 4
    assert task.notes == ()


def test_memory_alone() -> None:
    task = marked(memory="64Mi")
    assert task.spec.memory_limit_bytes == 64 * MIB
    assert task.spec.cpu_guarantee_cores is task.spec.cpu_limit_cores is None
    assert task.image.docker_image is None
    assert task.agent_timeout_seconds is None


DEFAULTS = MarkerDefaults(GIB, 0.5, "stock:1", 60)


@pytest.mark.parametrize("arguments", [{}, {"memory": None, "cpus": None, "image": None}])
def test_defaults_fill_what_is_left_out(arguments: dict[str, Any]) -> None:
    task = marked(DEFAULTS, **arguments)
    assert task.spec.memory_limit_bytes == GIB
    assert task.spec.cpu_limit_cores == 0.5
    assert task.image.docker_image == "stock:1"
    assert task.agent_timeout_seconds == 60
    assert task.notes == (
        "memory 1 GiB from infra_default_memory: the marker gives none",
        "cpus 0.5 from infra_default_cpus: the marker gives none",
    )


def test_arguments_beat_defaults() -> None:
    task = marked(DEFAULTS, memory="64M", cpus=2, image="own:1", timeout=5)
    assert task.spec.memory_limit_bytes == 64 * MIB
    assert task.spec.cpu_limit_cores == 2
    assert task.image.docker_image == "own:1"
    assert task.agent_timeout_seconds == 5
    assert task.notes == ()


@pytest.mark.parametrize(
    ("arguments", "argument", "text"),
    [
        ({}, "memory", "infra_default_memory"),
        ({"memory": "2Q"}, "memory", "not a size"),
        ({"memory": 512}, "memory", "too little"),
        ({"memory": ["512M"]}, "memory", "not a size"),
        ({"memory": "64M", "cpus": 0}, "cpus", "not a number of CPU cores"),
        ({"memory": "64M", "cpus": True}, "cpus", "not a number of CPU cores"),
        ({"memory": "64M", "timeout": "soon"}, "timeout", "number of seconds"),
        ({"memory": "64M", "timeout": 0}, "timeout", "number of seconds"),
        ({"memory": "64M", "image": ""}, "image", "not an image's name"),
        ({"memory": "64M", "image": 3}, "image", "not an image's name"),
        ({"memory": "64M", "cpu": 1}, "unknown argument cpu", "memory, cpus, image, timeout"),
        ({"memory": "64M", "cpu": None}, "unknown argument cpu", "memory, cpus, image, timeout"),
    ],
)
def test_a_mistake_names_test_argument_and_fix(
    arguments: dict[str, Any], argument: str, text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        marked(**arguments)
    message = str(caught.value)
    assert message.startswith(f"{NAME}: infra marker: {argument}")
    assert text in message
    assert "\n" not in message


def test_the_digest_tells_arguments_names_and_sources_apart() -> None:
    tasks = [
        marked(memory="64M"),
        marked(memory="65M"),
        marked(memory="64M", cpus=1),
        marked(memory="64M", image="a"),
        marked(memory="64M", timeout=1),
        task_from_marker(NAME, {"memory": "64M"}, NONE, source="def test(): ..."),
        task_from_marker("other", {"memory": "64M"}, NONE),
    ]
    assert len({task.digest for task in tasks}) == len(tasks)


def test_one_meaning_has_one_digest() -> None:
    assert marked(memory="64M").digest == marked(memory=64 * MIB).digest
    assert (
        marked(DEFAULTS).digest == marked(memory="1G", cpus=0.5, image="stock:1", timeout=60).digest
    )
