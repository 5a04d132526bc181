"""Facts about the machine, the software and the tasks' repository, as far as they can be had.

Every function returns builtins for the manifest; what cannot be found out is None.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_infranoise import __version__

DEPENDENCIES = (
    "pytest",
    "pytest-xdist",
    "execnet",
    "pluggy",
    "docker",
    "psutil",
    "scipy",
    "numpy",
    "pydantic",
    "requests",
    "tomlkit",
    "PyYAML",
    "swebench",
    "pyarrow",
)
"""What this package stands on, the extras' included; a version is None where it is absent."""

GIT_TIMEOUT_SECONDS = 10


def capture_host() -> dict[str, Any]:
    """Return kernel, CPU, memory and swap of the machine that pytest runs on."""
    import psutil

    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_usable": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "swap_bytes": _meminfo_bytes("SwapTotal"),
    }


def capture_load(folders: Mapping[str, Path | None] | None = None) -> dict[str, Any]:
    """Return what changes while a study runs: load averages, free memory, pressure and disks.

    `folders` are what the disks are asked for, by what they hold; one that is unknown, or lies on
    another machine, is None.
    """
    import psutil

    return {
        "load_average": list(os.getloadavg()),
        "memory_available_bytes": psutil.virtual_memory().available,
        "swap_free_bytes": _meminfo_bytes("SwapFree"),
        "pressure": {name: _pressure(name) for name in ("cpu", "memory", "io")},
        "disks": {
            name: None if folder is None else _disk(folder)
            for name, folder in (folders or {}).items()
        },
    }


def _disk(folder: Path) -> dict[str, Any] | None:
    """Return size, free bytes and file system of the disk that a folder lies, or will lie, on."""
    there = next((item for item in (folder, *folder.parents) if item.exists()), None)
    if there is None:
        return None
    with suppress(OSError):
        usage = shutil.disk_usage(there)
        return {
            "total_bytes": usage.total,
            "free_bytes": usage.free,
            "file_system": _file_system(there.resolve()),
        }
    return None


def _file_system(folder: Path) -> str | None:
    """Return the type of the mount that a folder lies on."""
    best: tuple[int, str | None] = (0, None)
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
            mount, _, source = line.partition(" - ")
            point = Path(_unescaped(mount.split()[4]))
            if folder.is_relative_to(point) and len(point.parts) >= best[0]:
                best = (len(point.parts), source.split()[0])
    return best[1]


def _unescaped(text: str) -> str:
    """Undo the kernel's octal escapes of blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def capture_software() -> dict[str, Any]:
    """Return the versions of Python, of this package and of what it stands on."""
    return {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "python_executable": Path(sys.executable).name,
        "pytest_infranoise": __version__,
        "dependencies": {name: _version(name) for name in DEPENDENCIES},
    }


def capture_git(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Return commit and dirty state of every repository that the folders lie in.

    `is_dirty` says whether anything differs from the commit, untracked files included, in the
    smallest folder that holds all of a repository's own. Folders outside any repository are left
    out; without git commit and state are unknown.
    """
    by_root: dict[Path, list[Path]] = {}
    for folder in sorted({folder.resolve() for folder in folders}):
        root = _repository_root(folder)
        if root is not None:
            by_root.setdefault(root, []).append(folder)
    return [_repository(root, own) for root, own in by_root.items()]


def _repository_root(folder: Path) -> Path | None:
    candidates = (folder, *folder.parents)
    return next((item for item in candidates if (item / ".git").exists()), None)


def _repository(root: Path, folders: list[Path]) -> dict[str, Any]:
    status = _git(root, "status", "--porcelain", "--", os.path.commonpath(folders))
    return {
        "repository": root.name,
        "commit": _git(root, "rev-parse", "--verify", "HEAD"),
        "is_dirty": None if status is None else bool(status),
    }


def _git(folder: Path, *arguments: str) -> str | None:
    """Run git without letting the repository start programs of its own; None if it fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            check=True,
        )
        return done.stdout.strip()
    return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model"):
                return value.strip()
    return platform.processor() or None


def _meminfo_bytes(name: str) -> int | None:
    """Read a figure of the kernel's; psutil's own of swap warns where /proc/vmstat is hidden."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _pressure(name: str) -> dict[str, float] | None:
    """Return the ten-second averages of a resource's pressure stall information, per cent."""
    with suppress(OSError, ValueError, IndexError):
        found = {}
        for line in Path(f"/proc/pressure/{name}").read_text().splitlines():
            kind, average, *_ = line.split()
            found[f"{kind}_avg10"] = float(average.removeprefix("avg10="))
        return found
    return None
