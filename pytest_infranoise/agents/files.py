"""Folders that are put into a sandbox out of several layers."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_infranoise.backends.base import Placement, Sandbox
from pytest_infranoise.tasks.ignore import IgnoreRules


def put_folder(
    sandbox: Sandbox,
    target: str,
    folders: Sequence[Path],
    files: Mapping[str, str],
    *,
    script: str | None = None,
) -> None:
    """Lay a folder made of layers (`merged`) over what the image itself has at `target`.

    Every user can read it and run `script` in it.

    Raises:
        SandboxError: the sandbox is gone, or its disk is full.
    """
    with merged(folders, files) as folder:
        sandbox.place([public_folder(target, folder, script)])


def public_folder(target: str, folder: Path, script: str | None) -> Placement:
    """Return how a folder is laid in that every user may read; what is there is the image's own."""
    return Placement(target, folder, over="image", is_public=True, script=script)


@contextmanager
def merged(folders: Sequence[Path], files: Mapping[str, str]) -> Iterator[Path]:
    """Make one folder of the contents of `folders`, the last on top, and `files` over all.

    `files` are texts by file name; those that are called `*.sh` can be executed. What a folder's
    ignore files name stays out.
    """
    rules = [IgnoreRules(folder) for folder in folders]
    if len(folders) == 1 and not files and not rules[0]:
        yield folders[0]
        return
    with tempfile.TemporaryDirectory(prefix="infranoise-") as made:
        for layer, own in zip(folders, rules, strict=True):
            shutil.copytree(layer, made, symlinks=True, ignore=own.ignored, dirs_exist_ok=True)
        for name, text in files.items():
            path = Path(made) / name
            path.unlink(missing_ok=True)  # a symlink of a layer would be written through
            path.write_text(text, encoding="utf-8", newline="")
            path.chmod(0o755 if name.endswith(".sh") else 0o644)
        Path(made).chmod(0o755)
        yield Path(made)


def text_of(name: str, folders: Sequence[Path], files: Mapping[str, str]) -> str | None:
    """Return the text of a file of such a folder, None where there is none that can be read."""
    if name in files:
        return files[name]
    found = [folder / name for folder in folders if (folder / name).is_file()]
    try:
        return found[-1].read_text("utf-8", "replace") if found else None
    except OSError:
        return None
