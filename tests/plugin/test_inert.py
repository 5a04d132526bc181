"""Without an option, ini value or marker the plugin does nothing."""

import subprocess
import sys

import pytest
from bench import Bench

HEAVY = ("scipy", "numpy", "docker", "kubernetes", "pydantic", "psutil")


def test_help_loads_nothing_heavy(pytester: pytest.Pytester) -> None:
    probe = (
        "import sys, pytest\n"
        "code = pytest.main(['--help'])\n"
        f"print('loaded:', [name for name in {HEAVY!r} if name in sys.modules])\n"
        "ours = [name for name in sys.modules if name.startswith('pytest_infranoise.')]\n"
        "print('ours:', sorted(ours))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    ).stdout
    assert "loaded: []" in found
    ours = found.rpartition("ours: ")[2]
    assert ours.count("pytest_infranoise.") == ours.count("pytest_infranoise.plugin") > 0


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_an_ordinary_run_shows_and_leaves_nothing(pytester: pytest.Pytester, workers: str) -> None:
    pytester.makepyfile("def test_yes(): pass")
    result = pytester.runpytest_subprocess(workers)
    assert result.ret == 0
    assert "infranoise:" not in result.stdout.str()
    assert "infrastructure" not in result.stdout.str()
    assert not (pytester.path / ".infranoise").exists()


def test_an_ordinary_run_imports_only_the_thin_part(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n"
        "def test_thin():\n"
        "    ours = {m for m in sys.modules if m.startswith('pytest_infranoise.')}\n"
        "    assert all(m.startswith('pytest_infranoise.plugin') for m in ours), ours\n"
        f"    assert not [name for name in {HEAVY!r} if name in sys.modules]\n"
    )
    pytester.runpytest_subprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_task_folders_are_left_alone_without_a_sweep(plain_bench: Bench) -> None:
    directory = plain_bench.task("calm")
    (directory / "tests" / "test_outputs.py").write_text("def test_inner(): pass\n")
    result = plain_bench.pytester.runpytest_subprocess("bench")
    result.assert_outcomes(passed=1)
