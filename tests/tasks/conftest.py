"""A maker of task directories."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from task_maker import FILES, MEMORY, TaskMaker


@pytest.fixture
def make_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskMaker:
    """Return a function that writes a task directory below the current directory."""
    monkeypatch.chdir(tmp_path)

    def make(
        toml: str = MEMORY, *, where: str = "spike", files: Mapping[str, str | None] | None = None
    ) -> Path:
        directory = tmp_path / where
        for name, content in {**FILES, "task.toml": toml, **(files or {})}.items():
            if content is None:
                continue
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return directory

    return make
