"""At the root a sweep without a path runs the example tasks, anything else the tests."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.plugin.options import OPTIONS

ROOT = Path(__file__).parents[1]
SPECIAL = {"samples": "--infra-samples=2", "aa": "--infra-aa"}
INCOMPLETE = ("until-decided", "max-samples", "resume")  # usage errors by themselves
OWN_TASKS = ("swebench",)  # it names what runs
SWEEPS = [
    SPECIAL.get(spec.name, f"{spec.flag}=1,3")
    for spec in OPTIONS
    if spec.is_sweep and spec.name not in (*INCOMPLETE, *OWN_TASKS)
]
SHALLOW = ("--ignore-glob=tests/*/*",)
"""Leaves tests/test_*.py: importing every test module would take seconds and show nothing more."""


def pytest_at(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def collected(directory: Path, *args: str) -> set[str]:
    """The top folders of the collected ids, as seen from the root."""
    result = pytest_at(directory, "--collect-only", "-q", "--rootdir", str(ROOT), *args)
    assert result.returncode == 0, result.stdout + result.stderr
    ids = [line for line in result.stdout.splitlines() if "::" in line]
    assert ids
    return {item.split("/")[0] for item in ids}


@pytest.mark.parametrize("option", SWEEPS)
def test_every_sweep_option_leads_to_the_example_tasks(option: str) -> None:
    assert collected(ROOT, option) == {"example_tasks"}


def test_without_a_sweep_the_tests_are_collected() -> None:
    assert collected(ROOT, *SHALLOW) == {"tests"}


def test_an_ini_twin_does_not_take_the_tests_away() -> None:
    assert collected(ROOT, *SHALLOW, "-o", "infra_samples=2") == {"tests"}


def test_a_named_path_stays() -> None:
    assert collected(ROOT, "tests/test_design.py", "--infra-multipliers=1") == {"tests"}


def test_another_folder_than_the_root_stays() -> None:
    assert collected(ROOT / "tests" / "tasks", "--infra-multipliers=1") == {"tests"}


def test_without_the_plugin_nothing_is_redirected() -> None:
    assert collected(ROOT, *SHALLOW, "-p", "no:infranoise") == {"tests"}


def test_workers_find_the_same_tasks(local_backend: Any, tmp_path: Path) -> None:
    result = pytest_at(
        ROOT,
        "--infra-multipliers=uncapped",
        "--infra-backend=local",
        f"--infra-study={tmp_path / 'study'}",
        "-n2",
        "-k",
        "plain-pass or honest-failure",
        "--infra-exit=study",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 not passed, 1 passed" in result.stdout or "1 passed, 1 not passed" in result.stdout
    assert "testpaths" not in result.stdout
