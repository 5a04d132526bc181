"""Studies on disk for the commands to read."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_tables import table

from pytest_infranoise.cli.main import main


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str | bytes) -> Path:
        file = tmp_path / "table.csv"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    return write


@pytest.fixture
def make_study(
    tmp_path: Path, write_csv: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> Callable[..., Path]:
    """Import rows as a study; keywords replace what its manifest says."""

    def make(rows: Iterable[Sequence[object]], *options: str, **facts: Any) -> Path:
        folder = tmp_path / "study"
        assert (
            main(["import", "counts", str(write_csv(table(rows))), "-o", str(folder), *options])
            == 0
        )
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, **facts}))
        capsys.readouterr()
        return folder

    return make


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run
