"""What changes a task's digest, and what does not."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from task_maker import TaskMaker

from pytest_infranoise.tasks.digest import directory_digest

Change = Callable[[Path], object]

CHANGES: dict[str, Change] = {
    "a byte": lambda task: (task / "instruction.md").write_text("Do it!\n"),
    "a new file": lambda task: (task / "environment/new").write_text(""),
    "a new hidden file": lambda task: (task / "environment/.dockerignore").write_text(""),
    "a new folder": lambda task: (task / "environment/new").mkdir(),
    "a removed file": lambda task: (task / "solution/solve.sh").unlink(),
    "a renamed file": lambda task: (task / "tests/test.sh").rename(task / "tests/test.bash"),
    "a moved file": lambda task: (task / "tests/test.sh").rename(task / "solution/test.sh"),
    "an execute bit": lambda task: (task / "solution/solve.sh").chmod(0o755),
    "a symlink": lambda task: (task / "solution/link").symlink_to("solve.sh"),
    "a name that is not text": lambda task: Path(
        os.fsdecode(os.fsencode(task / "environment") + b"/\xff")
    ).write_text(""),
}
NO_CHANGES: dict[str, Change] = {
    "times": lambda task: os.utime(task / "instruction.md", (1, 1)),
    "a group's write bit": lambda task: (task / "instruction.md").chmod(0o664),
    "bytecode": lambda task: _write(task / "tests/__pycache__/x.pyc"),
    "git's folder": lambda task: _write(task / ".git/HEAD"),
}


def _write(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("x")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_can_change_an_outcome_changes_the_digest(
    make_task: TaskMaker, change: Change
) -> None:
    task = make_task()
    before = directory_digest(task)
    change(task)
    assert directory_digest(task) != before


@pytest.mark.parametrize("change", NO_CHANGES.values(), ids=NO_CHANGES)
def test_what_cannot_does_not(make_task: TaskMaker, change: Change) -> None:
    task = make_task()
    (task / "instruction.md").chmod(0o644)
    before = directory_digest(task)
    change(task)
    assert directory_digest(task) == before


def test_a_symlinks_target_counts(make_task: TaskMaker) -> None:
    digests: set[str] = set()
    for target in ("solve.sh", "other.sh", "."):
        task = make_task(where=f"{len(digests)}/task")
        (task / "solution/link").symlink_to(target)
        digests.add(directory_digest(task))
    assert len(digests) == 3


def test_where_the_folder_stands_does_not_count(make_task: TaskMaker, tmp_path: Path) -> None:
    task = make_task()
    shutil.copytree(task, tmp_path / "elsewhere/other-name")
    assert directory_digest(tmp_path / "elsewhere/other-name") == directory_digest(task)


def test_contents_cannot_be_shifted_between_name_and_file(tmp_path: Path) -> None:
    digests: set[str] = set()
    for name, content in (("ab", "c"), ("a", "bc"), ("abc", "")):
        folder = tmp_path / f"folder-{name}"
        folder.mkdir()
        (folder / name).write_text(content)
        digests.add(directory_digest(folder))
    assert len(digests) == 3


def test_the_digest_is_a_sha256(make_task: TaskMaker) -> None:
    digest = directory_digest(make_task())
    assert len(bytes.fromhex(digest)) == 32
