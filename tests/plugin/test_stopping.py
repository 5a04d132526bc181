"""Ctrl-C, SIGTERM and sudden death: what was finished is kept, nothing is left behind."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from bench import Bench, interrupt, interrupt_terminal, wait_until

WORKERS = pytest.mark.parametrize("workers", ["-n0", "-n2"])


def fill(bench: Bench, solve: str = "sleep 2; touch /app/done") -> None:
    for number in range(4):
        bench.task(f"task-{number}", solve)


def running(engine: Any, bench: Bench, process: subprocess.Popen[str]) -> bool:
    """Whether a trial's agent is at work: the sandboxes of this run stand."""
    return bool(sandboxes(engine, bench, process))


def sandboxes(engine: Any, bench: Bench, process: subprocess.Popen[str]) -> list[Any]:
    if bench.engine == "docker":
        owners = {str(item.pid) for item in family(process)}
        return [
            item
            for item in engine.client.api.containers(
                all=True, filters={"label": "pytest-infranoise"}
            )
            if item["Labels"]["pytest-infranoise.owner"].rpartition(":")[2] in owners
        ]
    return [item for item in family(process) if "sleep" in _name(item)]


def _name(process: psutil.Process) -> str:
    """The process's name; empty once it has ended, which it may do at any moment."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


class Traces:
    """What a run may leave behind on this host, seen from outside."""

    def __init__(self, engine: Any, bench: Bench, process: subprocess.Popen[str]) -> None:
        self.engine = engine
        self.bench = bench
        self.family = family(process)

    def left(self) -> list[str]:
        found = [f"process {item}" for item in self.family if _runs(item)]
        if self.bench.engine == "docker":
            pids = {str(item.pid) for item in self.family}
            found += [
                f"container {item['Names']}"
                for item in self.engine.client.api.containers(
                    all=True, filters={"label": "pytest-infranoise"}
                )
                if item["Labels"]["pytest-infranoise.owner"].rpartition(":")[2] in pids
            ]
        return found + [f"flag folder {path}" for path in self.bench.runtime.rglob("run-*")]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def engine_backend(request: pytest.FixtureRequest, engine: str) -> Any:
    return request.getfixturevalue(f"{engine}_backend")


def start(bench: Bench, engine: Any, workers: str) -> tuple[subprocess.Popen[str], Traces]:
    process = bench.start("--infra-multipliers=1,2", workers)
    wait_until(lambda: running(engine, bench, process))
    time.sleep(0.6)  # into the agent's two seconds
    return process, Traces(engine, bench, process)


@WORKERS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_running_trials_finish(
    bench: Bench, engine_backend: Any, workers: str, number: signal.Signals
) -> None:
    fill(bench)
    process, traces = start(bench, engine_backend, workers)
    interrupt(process, number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    records = bench.records()
    assert 1 <= len(records) < 8
    assert {record["outcome"] for record in records} == {"passed"}
    assert f"{len(records)} of 8 trials" in output
    assert "infranoise: stopping; running trials finish" in output
    (study,) = bench.studies()
    assert (
        "exit code 2: the session was stopped before every trial ran: "
        f"{8 - len(records)} trial(s) left; --infra-study={study.relative_to(bench.path)} "
        "--infra-resume goes on\n"
    ) in output
    assert "INTERNALERROR" not in output
    assert traces.left() == []


@WORKERS
def test_ctrl_c_in_a_terminal_reaches_everybody_and_means_the_same(
    bench: Bench, engine_backend: Any, workers: str
) -> None:
    fill(bench)
    process, traces = start(bench, engine_backend, workers)
    interrupt_terminal(process)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert {record["outcome"] for record in bench.records()} == {"passed"}
    assert traces.left() == []


@WORKERS
def test_the_second_signal_ends_at_once_without_a_record(
    bench: Bench, engine_backend: Any, workers: str
) -> None:
    fill(bench, "sleep 60; touch /app/done")
    process, traces = start(bench, engine_backend, workers)
    began = time.monotonic()
    interrupt_terminal(process)
    time.sleep(0.5)
    interrupt_terminal(process)
    output, _ = process.communicate(timeout=30)
    assert time.monotonic() - began < 20
    assert process.returncode == 2, output
    assert bench.studies() == [] or bench.records() == []
    assert wait_until(lambda: traces.left() == [], 10)


def test_a_killed_controller_loses_nothing_that_was_finished(
    bench: Bench, engine_backend: Any
) -> None:
    fill(bench)
    process, traces = start(bench, engine_backend, "-n2")
    wait_until(lambda: bench.studies() and bench.records())
    traces = Traces(engine_backend, bench, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert wait_until(lambda: traces.left() == [], 20)
    assert {record["outcome"] for record in bench.records()} == {"passed"}


@WORKERS
def test_nothing_is_left_after_an_ordinary_run(
    bench: Bench, engine_backend: Any, workers: str
) -> None:
    fill(bench, "sleep 300 & touch /app/done")
    process = bench.start("--infra-multipliers=1", workers)
    wait_until(lambda: running(engine_backend, bench, process) or process.poll() is not None)
    traces = Traces(engine_backend, bench, process)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert traces.left() == []
    mounts = Path("/proc/self/mountinfo").read_text()
    assert not re.search(rf"infranoise.*{bench.studies()[0].name}", mounts)


SLOW_END = """
import os, pathlib, time, pytest

@pytest.hookimpl(tryfirst=True)
def {hook}:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pathlib.Path("ending").touch()
        time.sleep(1.5)
"""


@WORKERS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("hook", ["pytest_terminal_summary()", "pytest_sessionfinish(session)"])
def test_the_summary_is_written_whatever_comes(
    local_bench: Bench, workers: str, number: signal.Signals, hook: str
) -> None:
    local_bench.task("calm")
    local_bench.pytester.makeconftest(SLOW_END.format(hook=hook))
    process = local_bench.start("--infra-multipliers=1", workers)
    wait_until(lambda: (local_bench.path / "ending").exists() or process.poll() is not None)
    for _ in range(2):
        time.sleep(0.2)
        interrupt(process, number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "the summary is being written" in output
    assert "1 of 1 trials" in output
    assert "exit code 0: every trial passed" in output
    assert "Traceback" not in output


@WORKERS
def test_the_third_signal_ends_at_once_and_cleanly(local_bench: Bench, workers: str) -> None:
    local_bench.task("slow", "sleep 60")
    local_bench.pytester.makeconftest(SLOW_END.format(hook="pytest_sessionfinish(session)"))
    process = local_bench.start("--infra-multipliers=1", workers)
    wait_until(lambda: any("sleep" in _name(item) for item in family(process)))
    traces = Traces(None, local_bench, process)
    for _ in range(3):
        interrupt_terminal(process)
        time.sleep(0.4)
    began = time.monotonic()
    output, _ = process.communicate(timeout=30)
    assert time.monotonic() - began < 8
    assert process.returncode == 2, output
    assert "infranoise: ended at once, without a summary" in output
    assert "Traceback" not in output
    assert wait_until(lambda: traces.left() == [], 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_first_trial_ends_the_session_as_pytest_does(
    local_bench: Bench, number: signal.Signals
) -> None:
    local_bench.task("calm")
    local_bench.pytester.makeconftest(SLOW_END.format(hook="pytest_collection(session)"))
    process = local_bench.start("--infra-multipliers=1", "--infra-study=study", "-n0")
    wait_until(lambda: (local_bench.path / "ending").exists())
    interrupt(process, number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2, output
    assert "KeyboardInterrupt" in output
    assert "Traceback" not in output
    assert not (local_bench.path / "study").exists()
    assert list(local_bench.runtime.rglob("run-*")) == []
