"""One open container."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from docker import DockerClient
from docker.errors import NotFound

from pytest_infranoise.backends.base import EffectiveLimits, StepResult
from pytest_infranoise.backends.cgroup import CgroupFiles, read_counters, read_limits
from pytest_infranoise.backends.cgroup_paths import ceiling_of, ceiling_was_reached
from pytest_infranoise.backends.docker import copying
from pytest_infranoise.backends.docker.counters import FETCH_SCRIPT, find_on_host, parse_fetched
from pytest_infranoise.backends.docker.deaths import Holder, remembered_death
from pytest_infranoise.backends.docker.execution import ExecOutcome, ExecRequest, run_exec
from pytest_infranoise.backends.docker.failures import (
    TRANSPORT_ERRORS,
    engine_calls,
    explain,
    is_gone,
    one_line,
)
from pytest_infranoise.backends.docker.kernel_log import (
    LoggedKill,
    counts_as_the_machine,
    logged_kills,
)
from pytest_infranoise.backends.docker.storage import OPTION
from pytest_infranoise.closing import Closing
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import SIGKILL_EXIT, Cause, Counters, Ending
from pytest_infranoise.model.resources import Allocation

_KILL_SCRIPT = """
kill -9 -1 2>/dev/null
tries=0
while [ "$tries" -lt 500 ]; do
  busy=
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    case $pid in 1|$$) continue ;; esac
    read -r line 2>/dev/null <"$folder/stat" || continue
    set -- ${line##*) }
    case $line in *"(sleep)"*) [ "$2" = 1 ] && [ "$1" != Z ] && continue ;; esac
    busy=1
    break
  done
  [ -z "$busy" ] && exit 0
  tries=$((tries + 1))
  sleep 0.02
done
exit 1
"""
"""Kills everything but PID 1 and itself, then waits until all of it is gone and reaped; the
holder's new `sleep` may stay."""

_STEP_SCRIPT = '{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$@"'
"""Starts a step as the kernel's first choice: where memory is full of files, all processes are
small, and the holder would be as good a victim as any. The order among a step's own processes stays
as it is. The shell also gives 127 and 126 where the engine has one code for all."""

_NOTHING_THERE = ("too many links", "not a directory")
"""What an engine says of a path through a loop of symlinks or a file; an agent can leave them."""

_MAINTENANCE_SECONDS = 120.0
_MAINTENANCE_TRIES = 3
_KILL_COUNT_SECONDS = 0.1
_KILL_COUNT_PAUSE_SECONDS = 0.005
_FINAL_STATE_SECONDS = 5.0

_log = logging.getLogger(__name__)


class DockerSandbox(Closing):
    """A running container with its limits in force (`base.Sandbox`).

    The image must have `sh`, `sleep`, `rm`, `mkdir` and `tail`. `counters_on_host=False` reads the
    counters inside the container even where the host's files could be read.
    """

    def __init__(
        self,
        client: DockerClient,
        container_id: str,
        allocation: Allocation,
        *,
        counters_on_host: bool = True,
    ) -> None:
        self.container_id = container_id
        self._client = client
        self._allocation = allocation
        pid = int(self._state()["Pid"])
        self._paths = find_on_host(pid, container_id) if counters_on_host else None
        self._holder = Holder(pid, is_here=self._paths is not None)
        self._cgroup = self._cgroup_number()
        self._last = Counters()
        self._closed = False

    def _cgroup_number(self) -> int | None:
        """What tells the cgroup from a later one of the same name; None if it cannot be read."""
        folder = None if self._paths is None else self._paths.memory_path
        try:
            return None if folder is None else folder.stat().st_ino
        except OSError:
            return None

    def _state(self) -> dict[str, Any]:
        with engine_calls("inspecting the container"):
            inspected = self._client.api.inspect_container(self.container_id)
        state: dict[str, Any] = inspected["State"]
        return state

    # --- steps -----------------------------------------------------------------------------------

    def exec(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
    ) -> StepResult:
        """Run one command to its end or its deadline (`base.Sandbox.exec`).

        On engines that wait for a finished command's output to be closed (20.10 does, for up to
        4 seconds), a step right after one that left a background child on its output may be
        reported late by as much.
        """
        request = ExecRequest(
            ["sh", "-c", _STEP_SCRIPT, "sh", *command],
            timeout_seconds,
            environment or {},
            workdir,
            user,
        )
        outcome = self._run(request, kill=self.kill_all)
        return StepResult(
            ending=Ending.DEADLINE if outcome.exit_code is None else Ending.EXIT,
            exit_code=outcome.exit_code,
            wall_seconds=outcome.wall_seconds,
            output=outcome.output.text,
            output_bytes=outcome.output.total_bytes,
            output_truncated=outcome.output.is_truncated,
        )

    def _run(self, request: ExecRequest, kill: Callable[[], None] | None = None) -> ExecOutcome:
        return run_exec(self._client, self.container_id, request, holder=self._holder, kill=kill)

    def kill_all(self) -> None:
        """Kill every process but the holder, and wait until all are gone and reaped."""
        outcome = self._maintain("ending what is left", _KILL_SCRIPT)
        if outcome.exit_code != 0:
            raise SandboxError(Cause.ENGINE, "docker: processes outlive SIGKILL in the container")

    def _maintain(
        self,
        doing: str,
        script: str,
        *arguments: str,
        tail_bytes: int = 4096,
        with_stderr: bool = True,
    ) -> ExecOutcome:
        """Run a short script of ours as root.

        In a container whose memory is used up (files in /dev/shm, say) the kernel may kill it; the
        next try may find room, since each such kill takes the largest process.
        """
        request = ExecRequest(
            ["sh", "-c", script, "sh", *arguments],
            timeout_seconds=_MAINTENANCE_SECONDS,
            workdir="/",
            tail_bytes=tail_bytes,
            with_stderr=with_stderr,
        )
        for _ in range(_MAINTENANCE_TRIES):
            outcome = self._run(request)
            if outcome.exit_code is None:
                raise SandboxError(Cause.ENGINE, f"docker, {doing}: no end within 2 minutes")
            if outcome.exit_code != SIGKILL_EXIT:
                return outcome
        raise SandboxError(
            Cause.HARNESS, f"docker, {doing}: killed each time; no memory is left in the container"
        )

    # --- files -----------------------------------------------------------------------------------

    def put(self, source: Path, target: str) -> None:
        """Copy a host file, or a folder's contents, to a path made anew (`base.Sandbox.put`)."""
        path = PurePosixPath(target)
        if not path.is_absolute() or path == PurePosixPath("/") or ".." in path.parts:
            raise ValueError(f"not an absolute path below the root: {target!r}")
        folder = path if source.is_dir() else path.parent
        with copying.temporary_archive() as archive:
            copying.pack(source, path.name, archive)
            script = 'rm -rf -- "$1" && mkdir -p -- "$2"'
            made = self._maintain("making room for a copy", script, str(path), str(folder))
            if made.exit_code != 0:
                raise SandboxError(
                    Cause.ENGINE, f"docker, copying to {target}: {one_line(made.output.text)}"
                )
            with engine_calls(f"copying to {target}"):
                self._client.api.put_archive(self.container_id, str(folder), archive)

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """Return a file's last `max_bytes` bytes, or None if there is no such regular file."""
        script = '[ -f "$1" ] && [ -r "$1" ] || exit 3; tail -c "$2" -- "$1"'
        outcome = self._maintain(
            f"reading {path}",
            script,
            path,
            str(max_bytes),
            tail_bytes=max_bytes,
            with_stderr=False,
        )
        return outcome.output.content if outcome.exit_code == 0 else None

    def get(self, source: str, target: Path) -> None:
        """Copy a file or folder out to the host path `target`; links and devices are left out."""
        with copying.temporary_archive() as archive:
            try:
                chunks, _ = self._client.api.get_archive(self.container_id, source)
                copying.spool(chunks, archive)
            except NotFound as error:
                if self.is_alive():
                    raise FileNotFoundError(f"{source}: no such file in the sandbox") from error
                raise SandboxError(Cause.SANDBOX_LOST, "the container is gone") from error
            except TRANSPORT_ERRORS as error:
                if any(words in str(error) for words in _NOTHING_THERE):
                    raise FileNotFoundError(f"{source}: no such file in the sandbox") from error
                cause = Cause.SANDBOX_LOST if is_gone(error) else Cause.ENGINE
                raise SandboxError(cause, f"docker, copying {source}: {explain(error)}") from error
            copying.unpack(archive, target)

    # --- facts -----------------------------------------------------------------------------------

    def counters(self, *, expect_kill: bool = False) -> Counters:
        """Read the kernel's counters (`base.Sandbox.counters`).

        They come from the host's cgroup files where the engine runs on this host, else from inside
        the container. When the container has ended, its cgroup is gone with it, and what is left
        are the kernel's log and, as the last hint, the engine's OOMKilled flag or news of a kill.
        """
        before = self._last.oom_kills
        reading = self._read_counters()
        until = time.monotonic() + (_KILL_COUNT_SECONDS if expect_kill else 0.0)
        while reading.oom_kills is not None and reading.oom_kills <= (before or 0):
            if time.monotonic() >= until:
                break
            time.sleep(_KILL_COUNT_PAUSE_SECONDS)
            reading = self._read_counters()
        if reading.oom_kills is None:
            return self._hint()
        self._last = reading
        if reading.oom_kills and self._holder.is_ending():
            with suppress(SandboxError):
                death = remembered_death(self._client, self.container_id)
                return replace(reading, took_holder=death.by_kill)
        return reading

    def _read_counters(self) -> Counters:
        files = self._files()
        if files is None:
            return Counters()
        reading = read_counters(files, self._allocation.memory_limit_bytes)
        if self._paths is None and reading.source is not None:
            return replace(reading, source=f"{reading.source} inside the container")
        return reading

    def _files(self) -> CgroupFiles | None:
        if self._paths is not None:
            # A restarted container counts from 0 in a cgroup of the same name.
            return self._paths if self._cgroup_number() == self._cgroup else None
        try:
            outcome = self._maintain("reading counters", FETCH_SCRIPT, tail_bytes=256 * 1024)
        except SandboxError:
            return None
        return parse_fetched(outcome.output.text)

    def _hint(self) -> Counters:
        """What can still be said when the counter cannot be read any more."""
        with suppress(SandboxError):
            state = self._final_state()
            if state["Running"]:
                return Counters()
            if kills := logged_kills(self.container_id):
                return self._killed_as_logged(kills)
            if self._flag_means_us():
                death = remembered_death(self._client, self.container_id)
                if state["OOMKilled"]:
                    return self._killed_as_told("docker State.OOMKilled", death.by_kill)
                if death.killed_at is not None:  # it was told after the flag could be set
                    return self._killed_as_told("docker oom event", death.by_kill)
        return Counters()

    def _final_state(self) -> dict[str, Any]:
        """The engine's view; where this host knows of the end already, once the engine does too."""
        until = time.monotonic() + _FINAL_STATE_SECONDS
        state = self._state()
        while state["Running"] and state["Pid"] == self._holder.pid and self._holder.is_ending():
            if time.monotonic() >= until:
                break
            time.sleep(_KILL_COUNT_PAUSE_SECONDS)
            state = self._state()
        return state

    def _flag_means_us(self) -> bool:
        """Whether nobody else's kill can have set the engine's flag or made its event.

        At a kill by a ceiling above, both are there for every container below, idle ones too.
        """
        return self._paths is not None and not ceiling_was_reached(self._paths)

    def _killed_as_logged(self, kills: Sequence[LoggedKill]) -> Counters:
        capped = self._allocation.memory_limit_bytes is not None
        took_holder: bool | None = self._holder.pid in {kill.pid for kill in kills}
        if not (self._holder.is_here and counts_as_the_machine()):
            took_holder = remembered_death(self._client, self.container_id).by_kill
        return Counters(
            oom_kills=max(len(kills), self._last.oom_kills or 0),
            limit_reached=capped and any(kill.by_own_limit for kill in kills),
            memory_peak_bytes=self._last.memory_peak_bytes,
            took_holder=took_holder,
            source="kernel log",
        )

    def _killed_as_told(self, source: str, took_holder: bool | None) -> Counters:
        capped = self._allocation.memory_limit_bytes is not None
        # Version 1 tells the engine of kills at the group's own limit only; version 2 of all.
        own = self._paths is not None and self._paths.version == 1
        reached = True if own or self._last.limit_reached else None
        return Counters(
            oom_kills=max(1, self._last.oom_kills or 0),
            limit_reached=reached if capped else False,
            memory_peak_bytes=self._last.memory_peak_bytes,
            took_holder=took_holder,
            source=source,
        )

    def effective_limits(self) -> EffectiveLimits:
        """Return the kernel's values, and the engine's where the kernel cannot be read."""
        with engine_calls("inspecting the container"):
            config = self._client.api.inspect_container(self.container_id)["HostConfig"]
        values: dict[str, int | float | None] = {
            "memory_limit_bytes": config["Memory"] or None,
            "memory_reservation_bytes": config["MemoryReservation"] or None,
            "memory_swap_bytes": config["MemorySwap"] or None,
            "cpu_limit_cores": config["NanoCpus"] / 1e9 or None,
            "cpu_weight": config["CpuShares"] or None,
        }
        if size := (config.get("StorageOpt") or {}).get(OPTION):
            values["storage_limit_bytes"] = int(size)
        files = self._files()
        if files is None:
            return EffectiveLimits(values, "docker inspect")
        kernel = read_limits(files)
        if self._paths is not None:
            values["memory_ceiling_bytes"] = ceiling_of(self._paths)
        return EffectiveLimits({**values, **kernel.values}, f"{kernel.source}, docker inspect")

    def is_alive(self) -> bool:
        """Whether the container runs."""
        try:
            return not self._closed and bool(self._state()["Running"])
        except SandboxError:
            return False

    def close(self) -> None:
        """Remove the container and its volumes; a failure is logged, and `sweep` comes later."""
        if self._closed:
            return
        self._closed = True
        try:
            remove(self._client, self.container_id)
        except TRANSPORT_ERRORS as error:
            _log.warning("container %s was not removed: %s", self.container_id, explain(error))


def remove(client: DockerClient, container_id: str) -> None:
    """Remove a container with its volumes; one that is gone or going already is fine."""
    try:
        client.api.remove_container(container_id, force=True, v=True)
    except TRANSPORT_ERRORS as error:
        if not is_gone(error):
            raise
