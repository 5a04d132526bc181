"""`.harborignore`, in gitignore's terms: checked against git itself."""

import subprocess
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.ignore import IGNORE_FILE, IgnoreRules, check_included

FILES = (
    "a",
    "a.o",
    "b.txt",
    "sub/a",
    "sub/a.o",
    "sub/deep/c",
    "sub/deep/a.o",
    "other/sub/a",
    "x y",
)


def tree(folder: Path, ignore: dict[str, str]) -> Path:
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name, text in ignore.items():
        (folder / name / IGNORE_FILE).write_text(text)
    return folder


def kept(folder: Path) -> set[str]:
    rules = IgnoreRules(folder)
    return {name for name in FILES if not rules.excludes(PurePosixPath(name))}


def kept_by_git(folder: Path) -> set[str]:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    if not (folder / ".git").exists():
        git("init", "-q")
    listed = git("ls-files", "-z", "--others", f"--exclude-per-directory={IGNORE_FILE}")
    return {name for name in listed.split("\0") if name and not name.endswith(IGNORE_FILE)}


@pytest.mark.parametrize(
    "ignore",
    [
        {},
        {"": "a\n"},
        {"": "/a\n"},
        {"": "*.o\n!sub/a.o\n"},
        {"": "sub/\n"},
        {"": "sub/\n!sub/a\n"},
        {"": "sub/deep\n"},
        {"": "deep/\n"},
        {"": "**/deep\n"},
        {"": "sub/**\n"},
        {"": "**/a.o\n"},
        {"": "**/**/a\n"},
        {"": "sub/**/**/a\n"},
        {"": "sub/**/**\n"},
        {"": "other/**/a\n"},
        {"": "sub/*\n!sub/deep\n"},
        {"": "?\n"},
        {"": "[ab]*\n"},
        {"": "[!a]*\n"},
        {"": "# a\n\\#\n\nx y\n"},
        {"": "x\\ y  \n"},
        {"": "a/\n"},
        {"": "*.o\n", "sub": "!a.o\n"},
        {"": "!a.o\n", "sub": "*.o\n", "sub/deep": "!*.o\n"},
        {"sub": "/a\n"},
        {"": "*\n!*/\n!c\n"},
    ],
)
def test_it_leaves_out_what_git_would(tmp_path: Path, ignore: dict[str, str]) -> None:
    folder = tree(tmp_path, ignore)
    assert kept(folder) == kept_by_git(folder)


PARTS = st.sampled_from(["a", "sub", "deep", "*", "**", "a.o", "*.o", "?", "[a-c]", "c"])
LINES = st.builds(
    lambda sign, parts, end: sign + "/".join(parts) + end,
    st.sampled_from(["", "!", "/"]),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)


@given(st.lists(LINES, min_size=1, max_size=3))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_lines_leave_out_what_git_would(tmp_path: Path, lines: list[str]) -> None:
    folder = tree(tmp_path, {"": "\n".join(lines) + "\n"})
    assert kept(folder) == kept_by_git(folder)


def test_the_script_itself_must_stay(tmp_path: Path) -> None:
    folder = tree(tmp_path, {"": "a\n"})
    check_included(folder, "b.txt")
    check_included(folder, "missing")
    with pytest.raises(UsageError, match=r"a: left out by \.harborignore"):
        check_included(folder, "a")


def test_an_ignore_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / IGNORE_FILE).write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        IgnoreRules(tmp_path)
