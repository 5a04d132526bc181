"""Facts about the machine, the software and the tasks' repository, as far as they can be had.

Every function returns builtins for the manifest; what cannot be found out is None.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
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
)
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
        "swap_bytes": _swap_bytes(),
    }


def capture_load() -> dict[str, Any]:
    """Return what changes while a study runs: load averages, free memory and pressure."""
    import psutil

    return {
        "load_average": list(os.getloadavg()),
        "memory_available_bytes": psutil.virtual_memory().available,
        "pressure": {name: _pressure(name) for name in ("cpu", "memory", "io")},
    }


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


def _swap_bytes() -> int | None:
    """Read the swap's size; psutil's own reading warns where /proc/vmstat is hidden."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("SwapTotal:"):
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
