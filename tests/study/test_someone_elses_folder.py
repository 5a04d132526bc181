"""A merge or an import that finds another process at work removes nothing of its study."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.study import imported, merging
from pytest_infranoise.study.files import write_json
from pytest_infranoise.study.journal import JOURNAL_NAME, Journal, encode_line
from pytest_infranoise.study.writer import MANIFEST_NAME

LINE = encode_line({"task": "a"})
Write = Callable[[Path, Mapping[str, Any]], object]

WRITERS: dict[str, Write] = {
    "merge": lambda folder, manifest: merging._write(folder, manifest, [LINE], b""),
    "import": lambda folder, manifest: imported.write_study(folder, manifest, iter([LINE])),
}


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Write:
    return WRITERS[request.param]


def test_a_journal_that_another_process_writes_stays(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    with Journal(folder) as theirs:
        theirs.extend([LINE])
        # Both had looked before the other began.
        monkeypatch.setattr(Path, "exists", lambda self: False)
        with pytest.raises(UsageError, match="another process is writing it"):
            write(folder, {"study": "ours"})
        monkeypatch.undo()
        assert (folder / JOURNAL_NAME).read_bytes() == LINE


def test_what_cannot_be_finished_leaves_nothing(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "study"

    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for module in (merging, imported):
        monkeypatch.setattr(module, write_json.__name__, refuse)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        write(folder, {"study": "ours"})
    assert not (folder / JOURNAL_NAME).exists()
    assert not (folder / MANIFEST_NAME).exists()
