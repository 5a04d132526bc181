"""A disk of a few MiB, for tests that fill one."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

DISK_MIB = 48


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of a few MiB below a folder meanwhile; needs root."""
    image, place = folder / "disk.img", folder / "disk"
    place.mkdir()
    with image.open("wb") as opened:
        opened.truncate(DISK_MIB << 20)
    _run("mke2fs", "-q", "-F", "-t", "ext4", image)
    _run("mount", "-o", "loop", image, place)
    try:
        yield place
    finally:
        _run("umount", place)
        image.unlink()


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
