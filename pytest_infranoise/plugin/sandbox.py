"""`infra_sandbox`: what a marked test holds in its hands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_infranoise.backends.base import SHELL, StepResult
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Ending
from pytest_infranoise.model.resources import Allocation
from pytest_infranoise.trial import LiveTrial


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What became of a command.

    `exit_code` follows the shell (128 + signal; 137 after SIGKILL) and is None when the command
    was ended by its deadline, which `timed_out` says. `output` is the end of stdout and stderr
    together. `oom_kills` counts the processes that the kernel killed during this command.
    """

    exit_code: int | None
    output: str
    wall_seconds: float
    timed_out: bool
    oom_kills: int | None


class InfraSandbox:
    """A container (or local sandbox) with this trial's limits, open for one test.

    The test's own assertions are the verdict: a test that passes is a passed trial, however many
    processes were killed in it; one that fails after a kill at the threshold is an `oom`. The
    sandbox is closed when the test function returns, before fixtures are torn down.

    Example:
        >>> @pytest.mark.infra(memory="512M", cpus=1, image="python:3.12-slim", timeout=600)
        ... def test_sort(infra_sandbox):
        ...     infra_sandbox.put("data/big.csv", "/data/big.csv")
        ...     result = infra_sandbox.exec("sort /data/big.csv >/data/sorted.csv")
        ...     assert result.exit_code == 0
    """

    def __init__(self, trial: LiveTrial) -> None:
        self._trial = trial
        self._last_step: StepResult | None = None
        self._blamed_step: StepResult | None = None
        self.loss: SandboxError | None = None
        """How the sandbox was lost under a command, None while it stands."""
        self.deadlines = 0
        """How many commands were ended by their deadline."""

    @property
    def deciding_step(self) -> StepResult | None:
        """The command that stands for the test: the one before its first failure, or its last."""
        return self._blamed_step or self._last_step

    def blame_last_step(self) -> None:
        """Note that a part of the test has failed, though the test goes on."""
        self._blamed_step = self._blamed_step or self._last_step

    @property
    def allocation(self) -> Allocation:
        """This trial's guarantee and limits: bytes and cores, None is uncapped."""
        return self._trial.plan.allocation

    @property
    def oom_kills(self) -> int | None:
        """How many processes the kernel has killed here so far; None if that cannot be read."""
        return self._trial.sandbox.counters(expect_kill=True).oom_kills

    def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
    ) -> ExecResult:
        """Run a command to its end: a string by the sandbox's `sh -c`, a list as it is.

        Args:
            command: what to run.
            timeout: seconds; default is the marker's `timeout`. At the deadline every process in
                the sandbox is killed and the result says `timed_out`.
            env: variables for this command, besides the trial's own (`INFRA_SEED` and others).
            cwd: working folder; default is the image's.
            user: user name or id; default is the image's.

        Raises:
            SandboxError: the sandbox or its engine is gone. The trial is then an `infra_error`.
        """
        argv = [SHELL, "-c", command] if isinstance(command, str) else list(command)
        try:
            return self._run(
                argv,
                timeout_seconds=self._trial.plan.agent_timeout_seconds
                if timeout is None
                else timeout,
                environment={**self._trial.environment, **(env or {})},
                workdir=cwd,
                user=user or self._trial.image.user,
            )
        except SandboxError as error:
            self.loss = error
            raise

    def _run(self, argv: Sequence[str], **step: Any) -> ExecResult:
        sandbox = self._trial.sandbox
        before = sandbox.counters().oom_kills
        result = self._last_step = sandbox.exec(argv, **step)
        self.deadlines += result.ending is Ending.DEADLINE
        after = sandbox.counters(expect_kill=result.exit_code != 0).oom_kills
        return ExecResult(
            exit_code=result.exit_code,
            output=result.output,
            wall_seconds=result.wall_seconds,
            timed_out=result.ending is Ending.DEADLINE,
            oom_kills=None if before is None or after is None else after - before,
        )

    def put(self, source: str | Path, target: str) -> None:
        """Copy a host file to the sandbox path `target`, or a host folder's contents into it.

        Whatever is at `target` is replaced.

        Raises:
            FileNotFoundError: there is no `source`.
            SandboxError: the sandbox is gone, or its disk is full.
        """
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(str(path))
        self._trial.sandbox.put(path, target)

    def get(self, source: str, target: str | Path) -> None:
        """Copy a file or folder of the sandbox to the host path `target`.

        Raises:
            FileNotFoundError: nothing is at `source`.
        """
        self._trial.sandbox.get(source, Path(target))
