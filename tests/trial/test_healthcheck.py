"""When a healthcheck gives up, and how long it waits between two looks."""

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_infranoise.backends.base import StepResult
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Ending
from pytest_infranoise.model.task import Healthcheck
from pytest_infranoise.trial.healthcheck import wait_until_healthy

OK = StepResult(Ending.EXIT, 0, 0.1)
BAD = StepResult(Ending.EXIT, 1, 0.1)
DEADLINE = StepResult(Ending.DEADLINE, None, 30.0)
ENDED = StepResult(Ending.OOM_POLICY, None, 0.1)


class Script:
    """A sandbox whose commands end as they are told to, and a clock that only sleeping moves."""

    def __init__(self, *results: StepResult) -> None:
        self.results = list(results)
        self.asked: list[dict[str, Any]] = []
        self.pauses: list[float] = []
        self.now = 0.0

    def exec(self, command: Sequence[str], **options: Any) -> StepResult:
        self.asked.append({"command": command, **options})
        return self.results.pop(0)

    def program(self, name: str) -> str:
        return f"/bin/{name}"

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def wait(self, check: Healthcheck, **options: Any) -> None:
        wait_until_healthy(
            self,  # type: ignore[arg-type]
            check,
            clock=lambda: self.now,
            sleep=self.sleep,
            **options,
        )


def test_a_healthy_sandbox_is_asked_once() -> None:
    script = Script(OK)
    script.wait(Healthcheck("curl -f here", timeout_seconds=7), workdir="/app", user="web")
    (asked,) = script.asked
    assert asked == {
        "command": ["/bin/bash", "-c", "curl -f here"],
        "timeout_seconds": 7,
        "workdir": "/app",
        "user": "web",
    }
    assert script.pauses == []


def test_failures_in_the_start_period_do_not_count() -> None:
    check = Healthcheck(
        "x", interval_seconds=3, start_period_seconds=10, start_interval_seconds=4, retries=2
    )
    script = Script(BAD, BAD, BAD, BAD, OK)
    script.wait(check)
    assert script.pauses == [4, 4, 4, 3]


@pytest.mark.parametrize("retries", [1, 3])
def test_so_many_failures_in_a_row_are_too_many(retries: int) -> None:
    script = Script(*[BAD] * retries)
    with pytest.raises(SandboxError, match=rf"exit code 1, {retries} time.*: is it up") as caught:
        script.wait(Healthcheck("is it up", retries=retries))
    assert caught.value.cause == "sandbox_start"
    assert len(script.pauses) == retries - 1


@pytest.mark.parametrize(
    ("result", "words"), [(DEADLINE, "no answer within 30 s"), (ENDED, "oom policy")]
)
def test_after_a_kill_there_is_nothing_left_to_wait_for(result: StepResult, words: str) -> None:
    script = Script(result, OK)
    with pytest.raises(SandboxError, match=words):
        script.wait(Healthcheck("x", start_period_seconds=100))
    assert script.results == [OK]
