"""Backends that other packages add by an entry point, in real pytest processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.backends import registry
from pytest_infranoise.errors import BackendUnavailableError, UsageError

TOY = '''
from dataclasses import replace
from pytest_infranoise.backends.local import LocalBackend


class ToyBackend(LocalBackend):
    """The local backend under a name of its own."""

    @property
    def info(self):
        return replace(super().info, backend="toy", engine="toy 1.0")


def open_toy(environment):
    return ToyBackend()


def open_nothing(environment):
    raise RuntimeError("the toy box is closed")
'''

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that lays a package with entry points of the group on the path."""

    def lay_down(**entries: str) -> Path:
        site = tmp_path / "site"
        metadata = site / "toy_backend-1.0.dist-info"
        metadata.mkdir(parents=True)
        (site / "toy_backend.py").write_text(TOY)
        facts = "Metadata-Version: 2.1\nName: toy-backend\nVersion: 1.0\n"
        (metadata / "METADATA").write_text(facts)
        lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
        (metadata / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{lines}")
        monkeypatch.syspath_prepend(site)
        return site

    return lay_down


def test_names_of_other_packages_follow_ours_and_replace_none(install: Install) -> None:
    install(toy="toy_backend:open_toy", docker="toy_backend:open_toy", auto="toy_backend:open_toy")
    assert registry.backend_names() == ("docker", "local", "toy")
    registry.check_name("toy", where="--infra-backend")
    with pytest.raises(UsageError, match=r"ini: 'toi' is not one of auto, docker, local, toy$"):
        registry.check_name("toi", where="ini")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("toy_backend:open_nothing", "RuntimeError: the toy box is closed"),
        ("toy_backend:open_missing", "AttributeError: .*open_missing"),
        ("no_such_toy:open", "ModuleNotFoundError: No module named 'no_such_toy'"),
    ],
)
def test_one_that_cannot_be_opened_is_one_line(install: Install, value: str, reason: str) -> None:
    install(toy=value)
    expected = f"--infra-backend=toy: {value} cannot be opened: {reason}"
    with pytest.raises(BackendUnavailableError, match=expected) as raised:
        registry.open_backend("toy", informative_agent=False, environment={})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_sweep_runs_on_it(
    install: Install, pytester: pytest.Pytester, local_backend: Any, workers: str
) -> None:
    site = install(toy="toy_backend:open_toy")
    example = Path(__file__).parents[2] / "example_tasks" / "plain-pass"
    shutil.copytree(example, pytester.path / "bench" / "plain-pass")
    command = [sys.executable, "-m", "pytest", "bench", "--infra-multipliers=1,3", workers]
    found = subprocess.run(
        [*command, "--infra-backend=toy", "-p", "no:cacheprovider"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in found.stdout, found.stdout + found.stderr
    assert "toy 1.0" in found.stdout
