"""A function on the host as an agent: what it gets, what becomes of what it does, its deadline."""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sandboxes import make_task

from pytest_infranoise.agents import host
from pytest_infranoise.agents.base import AgentResult, AgentStep
from pytest_infranoise.agents.host import AgentDeadlineError, HostAgent, host_agent, is_host_agent
from pytest_infranoise.backends.base import StepResult
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.outcome import Cause, Ending
from pytest_infranoise.model.usage import Usage


class Recorded:
    """A sandbox that notes what is asked of it; a command `sleep N` lasts that long."""

    def __init__(self) -> None:
        self.commands: list[tuple[list[str], dict[str, Any]]] = []
        self.kills = 0

    def exec(self, command: list[str], **options: Any) -> StepResult:
        self.commands.append((command, options))
        words = command[-1].split()
        seconds = float(words[1]) if words[0] == "sleep" else 0.0
        limit = options["timeout_seconds"]
        if limit is not None and seconds > limit:
            time.sleep(limit)
            return StepResult(Ending.DEADLINE, None, limit)
        time.sleep(seconds)
        return StepResult(Ending.EXIT, 0, seconds, f"ran {command[-1]}")

    def kill_all(self) -> None:
        self.kills += 1


def work(function: Callable[..., Any], *, timeout: float | None = None) -> tuple[Any, Recorded]:
    task = make_task(instruction="Do it.", workdir="/work")
    sandbox: Any = Recorded()
    step = AgentStep(task, {"INFRA_SEED": "7"}, timeout, "worker")
    return HostAgent("solver:solve", function).run(sandbox, step), sandbox


def test_the_function_gets_the_instruction_and_a_sandbox_with_the_phases_own_ways() -> None:
    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        assert instruction == "Do it."
        sandbox.exec("echo one")
        sandbox.exec(["echo", "two"], environment={"A": "1"}, workdir="/else", user="root")

    result, sandbox = work(solve, timeout=30)
    assert (result.ending, result.exit_code) == (Ending.EXIT, 0)
    (first, first_options), (second, second_options) = sandbox.commands
    assert first == ["/bin/sh", "-c", "echo one"]
    assert 29 < first_options.pop("timeout_seconds") <= 30
    assert first_options == {
        "environment": {"INFRA_SEED": "7"},
        "workdir": "/work",
        "user": "worker",
    }
    assert second == ["echo", "two"]
    assert second_options["environment"] == {"INFRA_SEED": "7", "A": "1"}
    assert (second_options["workdir"], second_options["user"]) == ("/else", "root")


def test_a_coroutine_function_is_run_to_its_end() -> None:
    async def solve(instruction: str, sandbox: host.AgentSandbox) -> StepResult:
        return sandbox.exec("true")

    result, _ = work(solve)
    assert result == StepResult(Ending.EXIT, 0, 0.0, "ran true")


@pytest.mark.parametrize(
    ("answer", "usage", "notes"),
    [
        ({"cost_usd": 0.5, "turns": 3}, Usage(cost_usd=0.5), ()),
        (Usage(output_tokens=3), Usage(output_tokens=3), ()),
        (
            {"cost_usd": "much", "retries": 1},
            Usage(retries=1),
            ("the answer of solver:solve: not as documented, so unknown: cost_usd",),
        ),
    ],
)
def test_the_function_can_say_what_it_has_used(
    answer: Any, usage: Usage, notes: tuple[str, ...]
) -> None:
    result, _ = work(lambda instruction, sandbox: answer)
    assert isinstance(result, AgentResult)
    assert (result.exit_code, result.usage, result.notes) == (0, usage, notes)


def test_what_it_raises_is_its_own_failure() -> None:
    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        raise KeyError("no such tool")

    result, _ = work(solve)
    assert (result.ending, result.exit_code) == (Ending.EXIT, 1)
    assert result.output.endswith("KeyError: 'no such tool'\n")


def test_a_provider_that_fails_is_the_providers_failure() -> None:
    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        raise SandboxError(Cause.SANDBOX_LOST, "the container is gone")

    with pytest.raises(SandboxError, match="the container is gone"):
        work(solve)


@pytest.mark.parametrize("answer", [0, True, "done", ["x"]])
def test_an_answer_of_another_kind_is_an_error_of_the_harness(answer: Any) -> None:
    with pytest.raises(SandboxError, match="what it can return") as caught:
        work(lambda instruction, sandbox: answer)
    assert Cause(caught.value.cause) is Cause.HARNESS


def test_a_command_that_runs_into_the_deadline_ends_the_phase() -> None:
    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        sandbox.exec("sleep 20")

    result, _ = work(solve, timeout=0.2)
    assert (result.ending, result.exit_code) == (Ending.DEADLINE, None)
    assert result.wall_seconds < 2


def test_a_function_that_makes_light_of_its_deadline_is_late_all_the_same() -> None:
    def solve(instruction: str, sandbox: host.AgentSandbox) -> dict[str, float]:
        with contextlib.suppress(AgentDeadlineError):
            sandbox.exec("sleep 20")
        return {"cost_usd": 0.25}

    result, _ = work(solve, timeout=0.2)
    assert (result.ending, result.exit_code) == (Ending.DEADLINE, None)
    assert result.usage == Usage(cost_usd=0.25)


def test_ctrl_c_does_not_wait_for_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        begun.set()
        sandbox.exec("sleep 1")
        try:
            sandbox.exec("true")
        except AgentDeadlineError:
            ended.set()

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert begun.wait(5)
            raise KeyboardInterrupt

    monkeypatch.setattr(host, "_Run", partial(host._Run, done=Interrupted()))
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work(solve)
    assert time.monotonic() - start < 0.9
    assert ended.wait(5)


def test_a_shorter_limit_of_its_own_is_its_own_business() -> None:
    found = []

    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        found.append(sandbox.exec("sleep 20", timeout_seconds=0.1).ending)
        found.append(sandbox.exec("true").ending)

    result, _ = work(solve, timeout=30)
    assert found == [Ending.DEADLINE, Ending.EXIT]
    assert (result.ending, result.exit_code) == (Ending.EXIT, 0)


def test_a_function_that_outlasts_its_deadline_is_left_without_a_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "GRACE_SECONDS", 0.1)
    release, refused = threading.Event(), threading.Event()

    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        release.wait(20)
        try:
            sandbox.exec("true")
        except AgentDeadlineError:
            refused.set()

    result, sandbox = work(solve, timeout=0.2)
    assert (result.ending, result.exit_code) == (Ending.DEADLINE, None)
    assert result.notes == (
        "solver:solve had not returned 0.1 s after its deadline; its thread was left behind, "
        "without a sandbox",
    )
    assert sandbox.kills == 1
    release.set()
    assert refused.wait(5)
    assert sandbox.commands == []


def test_a_function_that_heeds_the_deadline_leaves_no_note() -> None:
    def solve(instruction: str, sandbox: host.AgentSandbox) -> None:
        while sandbox.remaining_seconds:
            time.sleep(0.02)
        time.sleep(0.1)

    result, _ = work(solve, timeout=0.1)
    assert (result.ending, result.notes) == (Ending.DEADLINE, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("solver:solve", True),
        ("my.package.solver:solve", True),
        ("solver:solve now", False),
        ("./solver:solve", False),
        ("solver.py:solve", True),
        ("solver", False),
        ("solver:", False),
        (":solve", False),
        ("http://host:80", False),
        ("1a:b", False),
        ("a:b:c", False),
    ],
)
def test_which_texts_name_a_function(text: str, expected: bool) -> None:
    assert is_host_agent(text) is expected


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("", "solve", "has no function solve"),
        ("solve = 3", "solve", "has no function solve"),
        ("def solve(instruction): pass", "solve", "it is called as solve(instruction, sandbox)"),
        ("def solve(a, b, c): pass", "solve", "it is called as solve(instruction, sandbox)"),
        ("import no_such_module", "solve", "cannot be imported from"),
        ("1 / 0", "solve", "ZeroDivisionError"),
        ("import sys; sys.exit(0)", "solve", "SystemExit: 0"),
        ("def solve(:", "solve", "SyntaxError"),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str, words: str
) -> None:
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    module = f"solver_{abs(hash(source))}"
    (tmp_path / f"{module}.py").write_text(source)
    with pytest.raises(UsageError) as caught:
        host_agent(f"{module}:{name}", tmp_path)
    assert str(caught.value).startswith(f"--infra-agent={module}:{name}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_below_the_root_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "found_solver.py").write_text("def solve(instruction, sandbox, *, extra=1): pass")
    agent = host_agent("found_solver:solve", tmp_path)
    assert agent.settings == {"function": "found_solver:solve", "location": "host"}
    assert not agent.is_reference
    with pytest.raises(UsageError, match="it has no instruction"):
        agent.check(make_task(name="silent"))
    agent.check(make_task(instruction="Do it."))
    del sys.modules["found_solver"]


def test_a_callable_object_will_do() -> None:
    calls = SimpleNamespace(number=0)

    class Solver:
        def __call__(self, instruction: str, sandbox: host.AgentSandbox) -> None:
            calls.number += 1

    work(Solver())
    assert calls.number == 1
