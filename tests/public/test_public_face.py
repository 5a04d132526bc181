"""The names that users import: the same for Python and for type checkers, loaded when asked for."""

import ast
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_infranoise

PACKAGE = Path(pytest_infranoise.__file__).parent
USAGE = Path(__file__).with_name("user_conftest.py")


def stub_names() -> dict[str, str]:
    """Return the module of each name in the stub, below the package."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    return {
        alias.name: (item.module or "").removeprefix("pytest_infranoise.")
        for item in tree.body
        if isinstance(item, ast.ImportFrom)
        for alias in item.names
    }


def test_stub_and_table_name_the_same() -> None:
    assert stub_names() == pytest_infranoise._MODULE_OF
    assert set(pytest_infranoise.__all__) == {"__version__", *stub_names()}
    assert dir(pytest_infranoise) == sorted(pytest_infranoise.__all__)


@pytest.mark.parametrize("name", sorted(pytest_infranoise._MODULE_OF))
def test_each_name_is_there_and_documented(name: str) -> None:
    value = getattr(pytest_infranoise, name)
    assert value.__name__ == name
    assert value.__doc__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Studdy'"):
        _ = pytest_infranoise.Studdy  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        exec("from pytest_infranoise import Studdy")


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import pytest_infranoise; "
        "print(sorted(set(sys.modules) - before))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "['pytest_infranoise']\n"


def type_check(file: Path, cache: Path) -> "subprocess.CompletedProcess[str]":
    """Check a user's file; an editable install is found by MYPYPATH alone."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    return subprocess.run(
        [*command, f"--cache-dir={cache}", str(file)],
        capture_output=True,
        text=True,
        cwd=cache,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        check=False,
    )


def test_what_users_write_is_type_checked(tmp_path: Path) -> None:
    """Right usage passes, and a wrong call beside it is found."""
    assert (PACKAGE / "py.typed").is_file()
    right = type_check(USAGE, tmp_path)
    assert right.returncode == 0, right.stdout
    wrong = tmp_path / "conftest.py"
    wrong.write_text("from pytest_infranoise import load_study\nload_study(3)\n")
    assert '"load_study" has incompatible type "int"' in type_check(wrong, tmp_path).stdout


def test_the_distribution_says_that_it_is_typed() -> None:
    classifiers = importlib.metadata.metadata("pytest-infranoise").get_all("Classifier") or []
    assert "Typing :: Typed" in classifiers
