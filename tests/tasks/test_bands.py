"""Writing `[metadata.infranoise]`: every other byte of a task file stays."""

import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.tasks.bands import edit_band, read_changes, size_text, write_edit
from pytest_infranoise.units import parse_size

BAND = {"memory_guarantee": "1G", "memory_limit": "3G"}
LINES = 'memory_guarantee = "1G"\nmemory_limit = "3G"\n'
TABLE = f"[metadata.infranoise]\n{LINES}"


def edited(tmp_path: Path, text: str, band=BAND) -> str:
    path = tmp_path / "task.toml"
    path.write_bytes(text.encode())
    edit = edit_band(path, band)
    assert path.read_bytes().decode() == text  # nothing is written yet
    write_edit(edit)
    return path.read_bytes().decode()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1\n", f"a = 1\n\n{TABLE}"),
        ("a = 1", f"a = 1\n{TABLE}"),
        (
            '# why\n[environment]  # here\nmemory = "1G"   # much\n',
            f'# why\n[environment]  # here\nmemory = "1G"   # much\n\n{TABLE}',
        ),
        (
            '[metadata]\nauthor = "x"  # y\n\n[environment]\ncpus=1\n',
            f'[metadata]\nauthor = "x"  # y\n\n{TABLE}\n[environment]\ncpus=1\n',
        ),
        (
            "[metadata.other]\nx=1\n[environment]\n",
            f"[metadata.other]\nx=1\n\n{TABLE}\n[environment]\n",
        ),
        (
            '[metadata.infranoise]\nmemory_limit = "5G"  # was too little\n[agent]\nx=1\n',
            '[metadata.infranoise]\nmemory_limit = "3G"  # was too little\n'
            'memory_guarantee = "1G"\n[agent]\nx=1\n',
        ),
        (
            '[metadata.infranoise]\nleftovers = "kill" # !\n',
            f'[metadata.infranoise]\nleftovers = "kill" # !\n{LINES}',
        ),
        ('[[steps]]\nname = "a"\n', f'[[steps]]\nname = "a"\n\n{TABLE}'),
        ("a=1\r\n[b]\r\nc=2\r\n", f"a=1\r\n[b]\r\nc=2\r\n\r\n{TABLE}".replace("\n", "\r\n")
         .replace("\r\r", "\r")),
    ],
)  # fmt: skip
def test_everything_else_stays(tmp_path: Path, before: str, after: str) -> None:
    assert edited(tmp_path, before) == after


@pytest.mark.parametrize(
    "text",
    [
        "metadata = {a = 1}\n",
        '[metadata]\ninfranoise = {leftovers = "kill"}\n',
        'metadata.infranoise.leftovers = "kill"\n',
        '[metadata]\ninfranoise.leftovers = "kill"\n[z]\n',
        "",
    ],
)
def test_any_spelling_of_the_table_is_kept(tmp_path: Path, text: str) -> None:
    wanted = tomllib.loads(text)
    wanted.setdefault("metadata", {}).setdefault("infranoise", {}).update(BAND)
    assert tomllib.loads(edited(tmp_path, text)) == wanted


def test_twice_is_once(tmp_path: Path) -> None:
    once = edited(tmp_path, "a = 1\n")
    assert edit_band(tmp_path / "task.toml", BAND).changes == ()
    assert edited(tmp_path, once) == once


def test_changes_name_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    path.write_text('[metadata.infranoise]\nmemory_limit = "2G"\nmemory_guarantee = "1G"\n')
    assert read_changes(path, BAND) == (("memory_limit", "2G", "3G"),)
    assert edit_band(path, BAND).changes == (("memory_limit", "2G", "3G"),)


def test_mode_and_link_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "task.toml"
    real.write_text("a = 1\n")
    real.chmod(0o640)
    link.symlink_to(real)
    write_edit(edit_band(link, BAND))
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_text() == f"a = 1\n\n{TABLE}"
    assert names(tmp_path) == ["real.toml", "task.toml"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "task.toml"
    path.write_text("a = 1\n")
    edit = edit_band(path, BAND)

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InfranoiseError, match="cannot be written: No space left"):
        write_edit(edit)
    assert path.read_text() == "a = 1\n"
    assert names(tmp_path) == ["task.toml"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a = ", "not valid TOML"),
        (b"\xff", "cannot be read"),
        (b"metadata = 3\n", "cannot be"),
        (b"[metadata]\ninfranoise = 3\n", "cannot be"),
        (None, "cannot be read"),
    ],
)
def test_what_cannot_be_edited_is_named(tmp_path: Path, content, problem: str) -> None:
    path = tmp_path / "task.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=problem) as caught:
        edit_band(path, BAND)
    assert "task.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_editor_its_package_is_named(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "task.toml"
    path.write_text("a = 1\n")
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    with pytest.raises(UsageError, match=r"pip install 'tomlkit>=0\.12'"):
        edit_band(path, BAND)
    assert read_changes(path, BAND)  # looking needs no editor


@given(st.integers(1, 2**45))
def test_sizes_are_exact(size: int) -> None:
    assert parse_size(size_text(size), where="here") == size


keys = st.sampled_from(["a", "b", "metadata", "infranoise", "x y"])
values = st.recursive(
    st.one_of(st.integers(-5, 5), st.sampled_from(["", "a\nb", "ü"]), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)


@given(document=st.dictionaries(keys, values, max_size=4))
def test_whatever_the_file_holds_it_is_right_or_refused(tmp_path_factory, document) -> None:
    import tomlkit

    path = tmp_path_factory.mktemp("any") / "task.toml"
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    before = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        edit = edit_band(path, BAND)
    except UsageError:
        metadata = before["metadata"]  # one of the two is there, and no table
        assert not (isinstance(metadata, dict) and isinstance(metadata["infranoise"], dict))
        return
    before.setdefault("metadata", {}).setdefault("infranoise", {}).update(BAND)
    assert tomllib.loads(edit.text) == before
