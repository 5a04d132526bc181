"""What is taken over into a verifier's own sandbox."""

from pathlib import Path

import pytest

from pytest_infranoise.model.task import Artifact
from pytest_infranoise.trial.separate import PUBLISHED, _with_published, host_path, leave_out

FILES = ("a.txt", "b.o", "sub/c.o", "sub/d.txt", "sub/deep/e.txt", "other/sub/f.txt")


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ((), set(FILES)),
        (("*.o",), {"a.txt", "sub/d.txt", "sub/deep/e.txt", "other/sub/f.txt"}),
        (("sub",), {"a.txt", "b.o"}),
        (("sub/deep",), set(FILES) - {"sub/deep/e.txt"}),
        (("deep/e.txt", "a.*"), set(FILES) - {"sub/deep/e.txt", "a.txt"}),
        (("nothing",), set(FILES)),
        (("*",), set()),
    ],
)
def test_patterns_leave_out_what_tar_would(
    tmp_path: Path, patterns: tuple[str, ...], left: set[str]
) -> None:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    leave_out(tmp_path, patterns)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == left


def test_an_artifact_lies_at_its_own_path(tmp_path: Path) -> None:
    assert host_path(tmp_path, "/var/log/x") == tmp_path / "var" / "log" / "x"


@pytest.mark.parametrize(
    ("listed", "sources"),
    [
        ((), [PUBLISHED]),
        ((Artifact("/a"),), [PUBLISHED, "/a"]),
        ((Artifact(PUBLISHED, ("*.o",)),), [PUBLISHED]),
        ((Artifact(PUBLISHED, service="db"),), [PUBLISHED, PUBLISHED]),
    ],
)
def test_what_is_published_is_always_taken(
    listed: tuple[Artifact, ...], sources: list[str]
) -> None:
    assert [item.source for item in _with_published(listed)] == sources
