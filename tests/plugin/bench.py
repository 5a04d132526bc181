"""A small benchmark in a folder of its own, run by a real pytest process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

BUSYBOX = "busybox:infranoise-test"
REWARD = """#!/bin/sh
[ -e /app/done ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt
"""


def hog(mib: int) -> str:
    """A shell command whose process fills a buffer of this size."""
    return f"dd if=/dev/zero of=/dev/null bs={mib}M count=1 2>/dev/null"


class Bench:
    """A benchmark's folder and the pytest processes run in it."""

    def __init__(self, pytester: pytest.Pytester, engine: str) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.engine = engine

    @property
    def runtime(self) -> Path:
        """A runtime folder of its own, so that other runs on this host cannot be mistaken."""
        folder = self.path / "runtime"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def task(
        self,
        name: str,
        solve: str = "touch /app/done",
        *,
        test: str = REWARD,
        memory: str = "32M",
        agent_timeout: float = 30,
        folder: str = "bench",
        environment: str = "",
        extra: str = "",
    ) -> Path:
        directory = self.path / folder / name
        for inner in ("environment", "solution", "tests"):
            (directory / inner).mkdir(parents=True)
        memory_line = f'memory = "{memory}"' if memory else ""
        (directory / "task.toml").write_text(
            f'schema_version = "1.4"\n[agent]\ntimeout_sec = {agent_timeout}\n'
            f"[verifier]\ntimeout_sec = 30\n[environment]\n{memory_line}\n{environment}\n{extra}\n"
        )
        (directory / "instruction.md").write_text("Make /app/done.\n")
        (directory / "environment" / "Dockerfile").write_text(f"FROM {BUSYBOX}\nWORKDIR /app\n")
        _script(directory / "solution" / "solve.sh", solve)
        _script(directory / "tests" / "test.sh", test)
        return directory

    def standard(self) -> None:
        """Three tasks: one passes, one is killed at 1x, one fails."""
        self.task("calm")
        self.task("hungry", f"{hog(64)} >/dev/null && touch /app/done")
        self.task("wrong", "true")

    def arguments(self, *args: str) -> list[str]:
        return ["bench", f"--infra-backend={self.engine}", "-p", "no:cacheprovider", *args]

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*self.arguments(*args), timeout=240)

    def ask(self, *args: str) -> pytest.RunResult:
        """As `run`, but in this process, for what ends before any trial."""
        return self.pytester.runpytest_inprocess(*self.arguments(*args))

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start pytest in a process group of its own, as a shell does."""
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *self.arguments(*args)],
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "XDG_RUNTIME_DIR": str(self.runtime)},
        )

    def studies(self) -> list[Path]:
        return sorted((self.path / ".infranoise").glob("2*"))

    def records(self, study: Path | None = None) -> list[dict[str, Any]]:
        journal = (study or self.studies()[-1]) / "trials.jsonl"
        return [json.loads(line) for line in journal.read_text().splitlines()]

    def outcomes(self) -> dict[tuple[str, str], str]:
        return {
            (record["task"], record["parameter_set"]): record["outcome"]
            for record in self.records()
        }


def _script(path: Path, text: str) -> None:
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the condition's first true value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"did not happen within {seconds} s")


def interrupt(process: subprocess.Popen[str], number: int = signal.SIGINT) -> None:
    """Signal the process alone; its workers hear nothing of it."""
    os.kill(process.pid, number)


def interrupt_terminal(process: subprocess.Popen[str]) -> None:
    """Signal the whole group, as Ctrl-C in a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def names(items: Sequence[dict[str, Any]]) -> set[tuple[str, str, int]]:
    return {(item["task"], item["parameter_set"], item["sample"]) for item in items}
