"""A task folder is a leaf: nothing inside it is collected, imported or taken as configuration."""

from pathlib import Path

import pytest
from bench import Bench

BOMB = "raise SystemExit('a task folder was imported')\n"


def mine(directory: Path) -> None:
    """Fill a task folder with everything that pytest would love to load."""
    (directory / "conftest.py").write_text(BOMB)
    (directory / "tests" / "conftest.py").write_text(BOMB)
    (directory / "tests" / "test_outputs.py").write_text(BOMB)
    (directory / "test_top.py").write_text(BOMB)
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --does-not-exist\n")
    (directory / "tox.ini").write_text("[pytest]\naddopts = --does-not-exist\n")


@pytest.mark.parametrize(
    "argument",
    ["bench", ".", "bench/calm", "bench/calm/task.toml", "bench/calm/task.toml::1x-s1"],
)
@pytest.mark.parametrize("name", ["calm"])
def test_nothing_inside_is_loaded(plain_bench: Bench, name: str, argument: str) -> None:
    mine(plain_bench.task(name))
    result = plain_bench.pytester.runpytest_subprocess(
        argument, "--infra-multipliers=1", "--collect-only", "-q"
    )
    result.stdout.fnmatch_lines(["bench/calm/task.toml::1x-s1", "1 test collected in *"])
    assert result.ret == 0


@pytest.mark.parametrize("name", ["build", "dist", "test-task", "tests", "venv", "node"])
def test_no_task_is_lost_for_its_name(plain_bench: Bench, name: str) -> None:
    mine(plain_bench.task(name))
    for argument in ("bench", f"bench/{name}"):
        result = plain_bench.pytester.runpytest_subprocess(
            argument, "--infra-multipliers=1", "--collect-only", "-q"
        )
        result.stdout.fnmatch_lines([f"bench/{name}/task.toml::1x-s1"])


def test_conftest_files_above_a_task_still_apply(one_bench: Bench) -> None:
    mine(one_bench.task("calm"))
    (one_bench.path / "bench" / "conftest.py").write_text(
        "def pytest_runtest_setup(item): print('outer hook for', item.name)\n"
    )
    for argument in ("bench", "bench/calm"):
        result = one_bench.pytester.runpytest_subprocess(
            argument, "--infra-multipliers=1", "--infra-backend=docker", "-n0", "-s"
        )
        assert result.ret == 0
        result.stdout.fnmatch_lines(["*outer hook for 1x-s1*"])


def test_an_outer_ini_file_applies_to_a_named_task(plain_bench: Bench) -> None:
    mine(plain_bench.task("calm"))
    plain_bench.pytester.makeini("[pytest]\ninfra_multipliers = 1,2\naddopts = -q\n")
    result = plain_bench.pytester.runpytest_subprocess("bench/calm", "--collect-only")
    result.stdout.fnmatch_lines_random(
        ["bench/calm/task.toml::1x-s1", "bench/calm/task.toml::2x-s1"]
    )
