"""What takes long to make and is made once for all workers of xdist."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SharedFolder = Callable[[str, Callable[[Path], object]], Path]
"""Of a name and a function that fills a folder: a copy of that folder for this process alone."""


def make_shared(factory: pytest.TempPathFactory, *, among_workers: bool) -> SharedFolder:
    """Return the function; among workers, the folders lie beside their temporary folders."""

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        if not among_workers:
            made = factory.mktemp(name)
            fill(made)
            return made
        place = factory.getbasetemp().parent / "shared"
        place.mkdir(exist_ok=True)
        with (place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            original, partial = place / name, place / f"{name}.partial"
            if not original.exists():
                shutil.rmtree(partial, ignore_errors=True)  # of a worker that failed at it
                partial.mkdir()
                fill(partial)
                partial.rename(original)
        return shutil.copytree(original, factory.mktemp(name), symlinks=True, dirs_exist_ok=True)

    return folder
