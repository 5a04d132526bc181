"""Folders that are put into a sandbox out of several layers."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_infranoise.backends.base import Sandbox
from pytest_infranoise.tasks.ignore import IgnoreRules


def put_folder(
    sandbox: Sandbox, target: str, folders: Sequence[Path], files: Mapping[str, str]
) -> None:
    """Make `target` a folder with the contents of `folders`, the last on top, and `files` over all.

    `files` are texts by file name; those that are called `*.sh` can be executed. What a folder's
    ignore files name stays out.

    Raises:
        SandboxError: the sandbox is gone, or its disk is full.
    """
    rules = [IgnoreRules(folder) for folder in folders]
    if len(folders) == 1 and not files and not rules[0]:
        sandbox.put(folders[0], target)
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
        sandbox.put(Path(made), target)
