"""What is put into a sandbox for the agents that bring files: layers of folders, patches."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sandboxes import make_task

from pytest_infranoise.agents.builtin import OracleAgent
from pytest_infranoise.agents.files import put_folder
from pytest_infranoise.agents.patch import PatchAgent
from pytest_infranoise.backends.base import Placement
from pytest_infranoise.errors import UsageError


class Recorder:
    """Keeps a copy of what is put, below a folder of this host."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, placements: Sequence[Placement]) -> None:
        for item in placements:
            assert item.source is not None
            shutil.copytree(item.source, self.root / item.target.strip("/"), symlinks=True)


@pytest.fixture
def sandbox(tmp_path: Path) -> Any:
    return Recorder(tmp_path / "sandbox")


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_layers_lie_over_one_another(sandbox: Any, tmp_path: Path) -> None:
    below = folder(tmp_path / "below", a="below", b="below", c="below")
    above = folder(tmp_path / "above", b="above", c="above")
    put_folder(sandbox, "/x/y", [below, above], {"c": "text\r\n", "run.sh": "true\n"})
    made = sandbox.root / "x/y"
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        "a": b"below",
        "b": b"above",
        "c": b"text\r\n",
        "run.sh": b"true\n",
    }
    assert (made / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (made / "c").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "above/c").read_text() == "above"


def test_a_text_does_not_go_through_a_link_of_a_layer(sandbox: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    layer = folder(tmp_path / "layer")
    (layer / "test.sh").symlink_to(victim)
    put_folder(sandbox, "/tests", [layer], {"test.sh": "true\n"})
    assert victim.read_text() == "kept"
    assert (sandbox.root / "tests/test.sh").read_text() == "true\n"
    assert not (sandbox.root / "tests/test.sh").is_symlink()


def test_the_oracle_takes_texts_for_a_folder(sandbox: Any) -> None:
    task = make_task(solution_files={"solve.sh": "true\n"})
    OracleAgent().check(task)
    OracleAgent().prepare(sandbox, task)
    assert (sandbox.root / "solution/solve.sh").read_text() == "true\n"
    with pytest.raises(UsageError, match=r"solution/solve\.sh is missing"):
        OracleAgent().check(make_task(solution_files={"other.sh": "true\n"}))


def test_a_patch_is_put_for_its_task_alone(sandbox: Any) -> None:
    agent = PatchAgent("model", {"known": {"solve.sh": "true\n", "patch.diff": "+"}})
    agent.prepare(sandbox, make_task(name="known"))
    assert (sandbox.root / "infranoise/patch/patch.diff").read_text() == "+"
    with pytest.raises(UsageError, match="other: --infra-predictions has no patch for this task"):
        agent.check(make_task(name="other"))
