"""Which file makes a folder a task: `task.toml`, or the `task.yaml` of Terminal-Bench 1."""

from pathlib import Path

HARBOR_FILE = "task.toml"
TERMINAL_BENCH_FILE = "task.yaml"

_TERMINAL_BENCH_PARTS = ("docker-compose.yaml", "run-tests.sh")
"""What stands beside a `task.yaml` that is a task; other tools use files of that name too."""


def task_file(folder: Path) -> Path | None:
    """Return the file that makes `folder` a task, None if none does; `task.toml` goes first."""
    if (folder / HARBOR_FILE).is_file():
        return folder / HARBOR_FILE
    if (folder / TERMINAL_BENCH_FILE).is_file() and any(
        (folder / part).is_file() for part in _TERMINAL_BENCH_PARTS
    ):
        return folder / TERMINAL_BENCH_FILE
    return None
