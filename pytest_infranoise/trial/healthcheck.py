"""Wait until a task's sandbox says that it is ready, as the task format defines it."""

import time
from collections.abc import Callable

from pytest_infranoise.agents.shell import bash_command
from pytest_infranoise.backends.base import Sandbox
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Ending
from pytest_infranoise.model.task import Healthcheck


def wait_until_healthy(
    sandbox: Sandbox,
    check: Healthcheck,
    *,
    workdir: str | None = None,
    user: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run a healthcheck until it succeeds.

    Raises:
        SandboxError: `sandbox_start`, it failed too often in a row.
    """
    grace_ends = clock() + check.start_period_seconds
    failures = 0
    while True:
        in_grace = clock() < grace_ends
        result = sandbox.exec(
            bash_command(sandbox, "-c", check.command),
            timeout_seconds=check.timeout_seconds,
            workdir=workdir,
            user=user,
        )
        if result.exit_code == 0:
            return
        if result.ending is Ending.DEADLINE:
            # At a deadline everything in a sandbox is killed: what was to become healthy is gone.
            _give_up(check, f"no answer within {check.timeout_seconds:g} s")
        if result.ending is Ending.OOM_POLICY:
            _give_up(check, "the trial was ended by its oom policy")
        failures += not in_grace
        if failures >= check.retries:
            _give_up(check, f"exit code {result.exit_code}, {failures} time(s) in a row")
        sleep(check.start_interval_seconds if in_grace else check.interval_seconds)


def _give_up(check: Healthcheck, reason: str) -> None:
    raise SandboxError(
        Cause.SANDBOX_START, f"the healthcheck failed ({reason}): {check.command[:200]}"
    )
