"""What engines do not do themselves: end a trial at its first kill, tolerate an overrun.

A `PolicedSandbox` stands around an engine's sandbox. A thread looks at the counters every
`LOOK_SECONDS` for as long as the sandbox is open; so does every reading that somebody else makes.
"""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_infranoise.backends.base import (
    OUTPUT_TAIL_BYTES,
    EffectiveLimits,
    EngineInfo,
    Placement,
    Sandbox,
    Seen,
    StepResult,
)
from pytest_infranoise.closing import Closing
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.enforcement import Enforcement
from pytest_infranoise.model.outcome import SIGKILL_EXIT, Cause, Counters, Ending, Victim

LOOK_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
# A killed command is reported some milliseconds after the counter has risen: so long we wait, to
# learn whether it was the victim, before we kill what is left.
_GRACE_SECONDS = 0.03

LENIENT_WATCHDOG = "lenient watchdog"
POLICY_ENDED = "oom policy container: a kill has ended this trial"


def check_enforcement(enforcement: Enforcement, info: EngineInfo) -> None:
    """Refuse a method that an engine cannot be used with, before anything runs.

    Raises:
        UsageError: one line that names the method and what is missing.
    """
    if not enforcement.is_lenient:
        return
    option = f"--infra-enforcement=lenient:{enforcement.lenient_seconds:g}"
    if info.cgroup_version is None:
        raise UsageError(
            f"{option} reads what a trial uses from its cgroup, and {info.engine} has none here; "
            "use --infra-enforcement=hard"
        )
    if not info.has_ceiling:
        raise UsageError(
            f"{option} lets trials pass their limits, so a shared ceiling must protect the host, "
            f"and {info.engine} can have none here; use --infra-enforcement=hard"
        )


def police(
    sandbox: Sandbox, enforcement: Enforcement, memory_limit_bytes: int | None, info: EngineInfo
) -> "PolicedSandbox | None":
    """Return the sandbox with its police around it, None where the engine does all itself.

    `memory_limit_bytes` is the trial's kill threshold, None in an uncapped set.
    """
    is_watched = enforcement.is_lenient and memory_limit_bytes is not None
    if enforcement.oom_policy == "process" and not is_watched:
        return None
    return PolicedSandbox(
        sandbox,
        ends_at_kill=enforcement.oom_policy == "container",
        kernel_kills_all=info.kills_groups,
        overrun=_overrun(enforcement, memory_limit_bytes) if is_watched else None,
    )


def _overrun(enforcement: Enforcement, memory_limit_bytes: int | None) -> "Overrun":
    assert enforcement.lenient_seconds is not None
    assert memory_limit_bytes is not None
    return Overrun(memory_limit_bytes, enforcement.lenient_seconds)


@dataclass
class Overrun:
    """How long what a sandbox holds (without page cache) stood above a threshold.

    `seconds` is the sum over all overruns so far, None as long as it was never readable; `times`
    how many overruns began. What lies between a reading above and one below is
    not counted.
    """

    threshold_bytes: int
    tolerated_seconds: float
    seconds: float | None = None
    times: int = 0
    _since: float | None = None
    _last: float = 0.0

    def take(self, now: float, held_bytes: int | None) -> bool:
        """Note a reading; return whether the tolerance is used up. None says nothing."""
        if held_bytes is None:
            return False
        self.seconds = self.seconds or 0.0
        if held_bytes <= self.threshold_bytes:
            self._since = None
            return False
        if self._since is None:
            self._since = now
            self.times += 1
        else:
            self.seconds += now - self._last
        self._last = now
        return now - self._since >= self.tolerated_seconds

    def restart(self, now: float) -> None:
        """Begin the tolerance anew, after a kill."""
        if self._since is not None:
            self._since = self._last = now


class PolicedSandbox(Closing):
    """A sandbox that is watched (`base.Sandbox`).

    `has_ended` says that the container policy ended the trial: all its processes are killed, and
    every further step is refused. `victim` is who was killed then.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        ends_at_kill: bool = False,
        kernel_kills_all: bool = False,
        overrun: Overrun | None = None,
    ) -> None:
        self.has_ended = False
        self.victim: Victim | None = None
        self._inner = sandbox
        self._ends_at_kill = ends_at_kill
        self._kernel_kills_all = kernel_kills_all
        self._overrun = overrun
        self._own_kills = 0
        self._running = 0
        self._is_cleared = False
        self._cleared_at = math.inf
        self._clearing = threading.Lock()  # guards the three
        self._change = threading.Condition()  # guards what stands above
        self._reading = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="infranoise-police", daemon=True)
        self._thread.start()

    # --- watching --------------------------------------------------------------------------------

    def _watch(self) -> None:
        pause = LOOK_SECONDS
        while not self._stop.wait(pause):
            begun = time.monotonic()
            with suppress(SandboxError):  # whoever works with the sandbox will hear of it
                self._look()
            # Where a look is slow (a command in the container), leave the trial most of the time.
            pause = min(max(LOOK_SECONDS, 2 * (time.monotonic() - begun)), _LONGEST_PAUSE_SECONDS)

    def _look(self) -> None:
        with self._reading:
            reading = self._inner.counters()
        self._judge(reading)
        if self.has_ended:
            self._clear()

    def _judge(self, reading: Counters) -> None:
        """Act on a reading: note a kill that ends the trial, end an overrun that lasts too long."""
        if self._overrun is not None:
            with self._change:
                now = time.monotonic()
                is_over = self._overrun.take(now, reading.memory_held_bytes)
                # Files in memory outlive a kill: without a step there is nothing left to kill.
                kills_now = is_over and (self._running > 0 or self._own_kills == 0)
                if kills_now:
                    self._overrun.restart(now)
                    self._own_kills += 1
                    self.victim = "all"
            if kills_now:
                self._inner.kill_all()
        if self._ends_at_kill and (reading.oom_kills or self._own_kills):
            with self._change:
                self.has_ended = True

    def _clear(self) -> None:
        """Kill all that is left, once; return when that is done, whoever does it."""
        with self._clearing:
            if self._is_cleared:
                return
            with self._change:
                self._change.wait_for(lambda: not self._running, _GRACE_SECONDS)
            self._cleared_at = time.monotonic()
            self._inner.kill_all()
            self._is_cleared = True

    # --- steps -----------------------------------------------------------------------------------

    def exec(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        tail_bytes: int = OUTPUT_TAIL_BYTES,
    ) -> StepResult:
        """Run one command (`base.Sandbox.exec`); a kill that ends the trial is its ending."""
        self._require_standing()
        with self._change:
            self._running += 1
        begun = time.monotonic()
        try:
            result = self._inner.exec(
                command,
                timeout_seconds=timeout_seconds,
                environment=environment,
                workdir=workdir,
                user=user,
                tail_bytes=tail_bytes,
            )
        except SandboxError:  # a kill may have taken the sandbox itself along
            if not self._ends_here(expect_kill=True):
                raise
            return StepResult(Ending.OOM_POLICY, None, time.monotonic() - begun)
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()
        ended_at = min(begun + result.wall_seconds, time.monotonic())
        died = result.exit_code == SIGKILL_EXIT
        if not self._ends_here(expect_kill=died):
            return result
        with suppress(SandboxError):
            self._clear()
        if self.victim is None:
            self.victim = self._tell_victim(died, ended_at)
        if self._kernel_kills_all:
            self.victim = "all"
        return replace(result, ending=Ending.OOM_POLICY, exit_code=None)

    def _tell_victim(self, died: bool, ended_at: float) -> Victim | None:
        """Tell a step that the kernel killed from one that outlived its child.

        One that died after we began to kill the rest may have been killed by either.
        """
        if not died:
            return "child"
        with self._clearing:
            return "step" if ended_at <= self._cleared_at else None

    def _ends_here(self, *, expect_kill: bool) -> bool:
        """Whether the policy ends the trial with this step; looks once more to find out."""
        if self._ends_at_kill and not self.has_ended:
            with suppress(SandboxError):
                self.counters(expect_kill=expect_kill)
        return self.has_ended

    def _require_standing(self) -> None:
        if self.has_ended:
            raise SandboxError(Cause.SANDBOX_LOST, POLICY_ENDED)

    def take_victim(self) -> Victim | None:
        """Return who was killed since this was last asked."""
        with self._change:
            victim, self.victim = self.victim, None
        return victim

    def kill_all(self) -> None:
        """Kill every process in the sandbox but its holder."""
        self._inner.kill_all()

    # --- files -----------------------------------------------------------------------------------

    def put(self, source: Path, target: str) -> None:
        """Copy into the sandbox (`base.Sandbox.put`), unless the trial has been ended."""
        self._require_standing()
        self._inner.put(source, target)

    def place(self, placements: Sequence[Placement]) -> None:
        """Lay files in (`base.Sandbox.place`), unless the trial has been ended."""
        self._require_standing()
        self._inner.place(placements)

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """Read a file (`base.Sandbox.read`), unless the trial has been ended."""
        self._require_standing()
        return self._inner.read(path, max_bytes=max_bytes)

    def read_folder(self, path: str, max_bytes: Mapping[str, int]) -> Mapping[str, bytes]:
        """Read files of a folder (`base.Sandbox.read_folder`), unless the trial has been ended."""
        self._require_standing()
        return self._inner.read_folder(path, max_bytes)

    def get(self, source: str, target: Path) -> None:
        """Copy out of the sandbox (`base.Sandbox.get`), unless the trial has been ended."""
        self._require_standing()
        self._inner.get(source, target)

    # --- facts -----------------------------------------------------------------------------------

    def counters(self, *, expect_kill: bool = False) -> Counters:
        """Read the counters, with the watch's own kills and what it saw."""
        with self._reading:
            reading = self._inner.counters(expect_kill=expect_kill and self._own_kills == 0)
        self._judge(reading)
        return self._merged(reading)

    def _merged(self, reading: Counters) -> Counters:
        if self._overrun is None:
            return reading
        with self._change:
            own, overrun = self._own_kills, self._overrun
            seen = replace(reading, limit_hits=overrun.times, overrun_seconds=overrun.seconds)
        if not own:
            return seen
        sources = (reading.source if reading.oom_kills else None, LENIENT_WATCHDOG)
        return replace(
            seen,
            oom_kills=own + (reading.oom_kills or 0),
            limit_reached=True,
            source=", ".join(filter(None, sources)),
        )

    def effective_limits(self) -> EffectiveLimits:
        """Read the limits back, with the threshold that the watch enforces."""
        limits = self._inner.effective_limits()
        if self._overrun is None:
            return limits
        values = {**limits.values, "memory_watch_bytes": self._overrun.threshold_bytes}
        return EffectiveLimits(values, f"{limits.source}, {LENIENT_WATCHDOG}")

    @property
    def workdir(self) -> str:
        """The folder in which steps run that name none."""
        return self._inner.workdir

    def program(self, name: str) -> str | None:
        """Return where the image has a program (`base.Sandbox.program`)."""
        return self._inner.program(name)

    def altered(self, paths: Sequence[str]) -> str | None:
        """Return the first path that a step has changed (`base.Sandbox.altered`)."""
        return self._inner.altered(paths)

    def seen(self) -> Seen:
        """Say what a step sees of the machine."""
        return self._inner.seen()

    def is_alive(self) -> bool:
        """Whether the sandbox still stands."""
        return not self.has_ended and self._inner.is_alive()

    def close(self) -> None:
        """End the watch and remove the sandbox; safe to call twice, never raises."""
        self._stop.set()
        self._thread.join()
        self._inner.close()
