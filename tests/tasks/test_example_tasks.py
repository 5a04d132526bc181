"""The example tasks can be read, keep their promises, and match the table in their README."""

import re
import stat
from pathlib import Path

import pytest

from pytest_infranoise.model.task import Task
from pytest_infranoise.tasks.discovery import discover
from pytest_infranoise.units import MIB

ROOT = Path(__file__).parents[2] / "example_tasks"
TASKS = discover([ROOT], host_environment={})


@pytest.fixture(params=TASKS.tasks, ids=lambda task: task.name)
def task(request: pytest.FixtureRequest) -> Task:
    found = request.param
    assert isinstance(found, Task)
    return found


def test_there_are_at_least_eight_without_warnings() -> None:
    assert len(TASKS.tasks) >= 8
    assert TASKS.warnings == ()


def test_every_task_is_small_and_complete(task: Task) -> None:
    assert task.spec.memory_guarantee_bytes == task.spec.memory_limit_bytes
    assert 32 * MIB <= task.spec.memory_limit_bytes <= 128 * MIB
    assert task.spec.cpu_limit_cores is not None
    assert task.spec.cpu_limit_cores <= 0.25
    assert task.agent_timeout_seconds is not None
    assert task.agent_timeout_seconds <= 30
    assert task.solution is not None
    assert task.notes == ()


def test_eight_guarantees_fit_a_small_laptop() -> None:
    largest = sorted((task.spec.memory_guarantee_bytes for task in TASKS.tasks), reverse=True)
    assert sum(largest[:8]) <= 1024 * MIB
    assert sum(task.spec.cpu_guarantee_cores or 0 for task in TASKS.tasks) <= 2


def test_images_need_no_build_steps(task: Task) -> None:
    assert task.image.build_context is not None
    dockerfile = (task.image.build_context / "Dockerfile").read_text().splitlines()
    assert dockerfile[0] == "FROM python:3.11-slim-bookworm"
    assert {line.split()[0] for line in dockerfile} <= {"FROM", "WORKDIR", "COPY"}


def test_scripts_are_executable_posix_shell(task: Task) -> None:
    assert task.directory is not None
    for name in ("solution/solve.sh", "tests/test.sh"):
        script = task.directory / name
        assert script.read_text().startswith("#!/bin/sh\n")
        assert script.stat().st_mode & stat.S_IXUSR


def test_the_instruction_explains_the_limits(task: Task) -> None:
    assert task.instruction is not None
    assert "## Under limits" in task.instruction


def test_the_readme_lists_every_task_and_test() -> None:
    readme = (ROOT / "README.md").read_text()
    listed = re.findall(r"^\| `([^`]+)` \|", readme, re.MULTILINE)
    tests = re.findall(r"^def (test_\w+)", (ROOT / "test_existing_suite.py").read_text(), re.M)
    expected = [task.name for task in TASKS.tasks]
    expected += [f"test_existing_suite.py::{name}" for name in tests]
    assert sorted(listed) == sorted(expected)


def test_the_two_strategies_are_one_task() -> None:
    heavy, lean = ROOT / "heavy-strategy", ROOT / "lean-strategy"
    for name in ("environment/numbers.txt", "environment/Dockerfile", "tests/test.sh"):
        assert (heavy / name).read_bytes() == (lean / name).read_bytes()
