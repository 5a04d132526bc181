"""statistics/ costs nothing where nothing is analysed, and little where it is."""

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_infranoise.statistics as package

MODULES = sorted(path.stem for path in Path(package.__path__[0]).glob("*.py"))


def loaded_after(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", [name for name in MODULES if name != "__init__"])
def test_no_module_needs_the_slow_half_of_scipy(module):
    loaded = loaded_after(f"import pytest_infranoise.statistics.{module}")
    assert f"pytest_infranoise.statistics.{module}" in loaded
    assert not loaded & {"scipy.stats", "pydantic", "docker", "pytest"}


def test_the_packages_themselves_load_no_numpy():
    loaded = loaded_after("import pytest_infranoise.statistics")
    assert not loaded & {"numpy", "scipy"}
