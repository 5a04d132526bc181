"""The watch around a sandbox, on one that is made of lists."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.backends.base import EffectiveLimits, EngineInfo, StepResult
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.enforcement import Enforcement
from pytest_infranoise.model.outcome import Cause, Counters, Ending
from pytest_infranoise.model.resources import Capacity
from pytest_infranoise.trial.policing import Overrun, PolicedSandbox, check_enforcement, police

CONTAINER = Enforcement("container")
INFO = EngineInfo("docker", "docker 1", "id", 1, "hard limit", Capacity(1, 1.0), has_ceiling=True)


# --- overruns ------------------------------------------------------------------------------------


def overrun_of(readings: Sequence[tuple[float, int | None]], tolerated: float) -> Any:
    overrun = Overrun(100, tolerated)
    return overrun, [overrun.take(now, used) for now, used in readings]


@pytest.mark.parametrize(
    ("readings", "seconds", "times", "ends"),
    [
        ([], None, 0, []),
        ([(0, None), (1, None)], None, 0, [False, False]),
        ([(0, 50), (1, 100)], 0.0, 0, [False, False]),
        ([(0, 101)], 0.0, 1, [False]),
        ([(0, 101), (1, 101), (2, 101)], 2.0, 1, [False, False, True]),
        ([(0, 101), (1, 50), (2, 101), (3, 101)], 1.0, 2, [False] * 4),
        ([(0, 101), (1, None), (2, 101)], 2.0, 1, [False, False, True]),
    ],
)
def test_overrun(
    readings: list[tuple[float, int | None]], seconds: float | None, times: int, ends: list[bool]
) -> None:
    overrun, ended = overrun_of(readings, 2.0)
    assert (overrun.seconds, overrun.times, ended) == (seconds, times, ends)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.integers(0, 200)), min_size=1, max_size=30))
def test_overrun_is_within_the_time_that_passed(steps: list[tuple[float, int]]) -> None:
    now, readings = 0.0, []
    for pause, used in steps:
        now += pause
        readings.append((now, used))
    overrun, ended = overrun_of(readings, 0.5)
    assert 0 <= overrun.seconds <= now - readings[0][0] + 1e-9
    if all(used <= 100 for _, used in readings):
        assert overrun.seconds == 0
        assert not any(ended)


def test_after_a_kill_the_tolerance_begins_anew() -> None:
    overrun, _ = overrun_of([(0, 101), (2, 101)], 2.0)
    overrun.restart(2)
    assert not overrun.take(3, 101)
    assert overrun.take(4, 101)
    assert (overrun.seconds, overrun.times) == (4.0, 1)


# --- a sandbox made of lists ---------------------------------------------------------------------


class Scripted:
    """A sandbox whose step runs until `kill_all`, or until `returns` says so."""

    def __init__(self, returns: StepResult | SandboxError | None = None) -> None:
        self.reading = Counters(oom_kills=0, limit_reached=False, source="files")
        self.returns = returns
        self.calls: list[str] = []
        self.killed = threading.Event()

    def exec(self, command: Sequence[str], **options: Any) -> StepResult:
        self.calls.append("exec")
        begun = time.monotonic()
        if self.returns is None:
            assert self.killed.wait(10)
            return StepResult(Ending.EXIT, 137, time.monotonic() - begun, "printed")
        if isinstance(self.returns, SandboxError):
            raise self.returns
        return self.returns

    def kill_all(self) -> None:
        self.calls.append("kill_all")
        self.killed.set()

    def counters(self, *, expect_kill: bool = False) -> Counters:
        return self.reading

    def effective_limits(self) -> EffectiveLimits:
        return EffectiveLimits({"memory_limit_bytes": None}, "here")

    def is_alive(self) -> bool:
        return True

    def put(self, source: Path, target: str) -> None:
        self.calls.append("put")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def policed() -> Iterator[Callable[..., PolicedSandbox]]:
    opened: list[PolicedSandbox] = []

    def put_police(inner: Scripted, **options: Any) -> PolicedSandbox:
        opened.append(PolicedSandbox(inner, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield put_police
    for sandbox in opened:
        sandbox.close()


def later(seconds: float, action: Callable[[], None]) -> None:
    threading.Timer(seconds, action).start()


KILLED = Counters(oom_kills=1, limit_reached=True, source="files")


def test_the_first_kill_ends_step_and_trial(policed: Any) -> None:
    inner = Scripted()
    sandbox = policed(inner, ends_at_kill=True)
    later(0.1, lambda: setattr(inner, "reading", KILLED))
    begun = time.monotonic()
    result = sandbox.exec(["x"])
    assert (result.ending, result.exit_code, result.output) == (Ending.OOM_POLICY, None, "printed")
    assert time.monotonic() - begun < 0.1 + 0.2
    assert sandbox.victim is None  # by the kernel or by us: both kill alike
    for refused in (lambda: sandbox.exec(["y"]), lambda: sandbox.put(Path("x"), "/y")):
        with pytest.raises(SandboxError, match="oom policy container") as caught:
            refused()
        assert Cause(caught.value.cause) is Cause.SANDBOX_LOST
    assert not sandbox.is_alive()
    assert sandbox.counters().oom_kills == 1
    assert inner.calls == ["exec", "kill_all"]


@pytest.mark.parametrize(
    ("exit_code", "kernel_kills_all", "victim"),
    [(137, False, "step"), (0, False, "child"), (1, False, "child"), (137, True, "all")],
)
def test_a_step_that_ended_by_itself_is_looked_at_once_more(
    policed: Any, exit_code: int, kernel_kills_all: bool, victim: str
) -> None:
    inner = Scripted(StepResult(Ending.EXIT, exit_code, 0.1))
    sandbox = policed(inner, ends_at_kill=True, kernel_kills_all=kernel_kills_all)
    inner.reading = KILLED
    assert sandbox.exec(["x"]).ending is Ending.OOM_POLICY
    assert sandbox.victim == victim
    assert inner.calls == ["exec", "kill_all"]


def test_a_step_without_a_kill_is_left_alone(policed: Any) -> None:
    result = StepResult(Ending.EXIT, 137, 0.1)
    sandbox = policed(Scripted(result), ends_at_kill=True)
    assert sandbox.exec(["x"]) == result
    assert not sandbox.has_ended
    assert sandbox.exec(["x"]) == result


def test_a_kill_between_steps_ends_the_trial_too(policed: Any) -> None:
    inner = Scripted(StepResult(Ending.EXIT, 0, 0.1))
    sandbox = policed(inner, ends_at_kill=True)
    inner.reading = KILLED
    assert inner.killed.wait(0.5)
    with pytest.raises(SandboxError):
        sandbox.exec(["x"])
    assert sandbox.victim is None


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_sandbox_that_a_kill_took_along_is_an_end_by_policy(
    policed: Any, is_killed: bool
) -> None:
    inner = Scripted(SandboxError(Cause.SANDBOX_LOST, "gone"))
    sandbox = policed(inner, ends_at_kill=True)
    if is_killed:
        inner.reading = KILLED
        assert sandbox.exec(["x"]).ending is Ending.OOM_POLICY
    else:
        with pytest.raises(SandboxError, match="gone"):
            sandbox.exec(["x"])


def test_an_overrun_is_tolerated_for_its_time_then_killed(policed: Any) -> None:
    inner = Scripted()
    inner.reading = replace(inner.reading, memory_held_bytes=101)
    sandbox = policed(inner, overrun=Overrun(100, 0.4))
    begun = time.monotonic()
    result = sandbox.exec(["x"])
    assert 0.35 < time.monotonic() - begun < 0.4 + 0.3
    assert (result.ending, result.exit_code) == (Ending.EXIT, 137)
    inner.reading = replace(inner.reading, memory_held_bytes=1)
    counters = sandbox.counters()
    assert (counters.oom_kills, counters.limit_reached) == (1, True)
    assert counters.source == "lenient watchdog"
    assert counters.overrun_seconds == pytest.approx(0.4, abs=0.2)
    assert counters.limit_hits == 1
    assert sandbox.victim == "all"
    limits = sandbox.effective_limits()
    assert limits.values == {"memory_limit_bytes": None, "memory_watch_bytes": 100}


def test_a_kill_of_the_kernel_under_a_lenient_watch_is_not_the_watch_s(policed: Any) -> None:
    inner = Scripted()
    inner.reading = Counters(oom_kills=2, limit_reached=False, memory_held_bytes=1, source="f")
    counters = policed(inner, overrun=Overrun(100, 5)).counters()
    assert (counters.oom_kills, counters.limit_reached, counters.source) == (2, False, "f")
    assert counters.overrun_seconds == 0.0


def test_files_in_memory_are_not_killed_again_and_again(policed: Any) -> None:
    inner = Scripted(StepResult(Ending.EXIT, 0, 0.0))
    inner.reading = replace(inner.reading, memory_held_bytes=101)
    sandbox = policed(inner, overrun=Overrun(100, 0.06))
    time.sleep(0.5)
    assert sandbox.counters().oom_kills == 1


def test_police_is_there_only_where_it_is_needed() -> None:
    sandbox: Any = Scripted()
    assert police(sandbox, Enforcement(), 100, INFO) is None
    assert police(sandbox, Enforcement(lenient_seconds=5), None, INFO) is None
    for enforcement in (CONTAINER, Enforcement(lenient_seconds=5)):
        around = police(sandbox, enforcement, 100, INFO)
        assert around is not None
        around.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"cgroup_version": None}, "cgroup"), ({"has_ceiling": False}, "ceiling")],
)
def test_a_lenient_limit_needs_a_cgroup_and_a_ceiling(changes: dict[str, Any], words: str) -> None:
    check_enforcement(Enforcement(lenient_seconds=5), INFO)
    check_enforcement(CONTAINER, replace(INFO, **changes))
    with pytest.raises(UsageError, match=words):
        check_enforcement(Enforcement(lenient_seconds=5), replace(INFO, **changes))
