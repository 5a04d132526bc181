"""What is done to a trial from outside, by the host's own means and the engine's."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError
from sandboxes import allocation, request_for

from pytest_infranoise.backends.base import Backend, Sandbox, SandboxRequest
from pytest_infranoise.units import MIB

HOLD_96_MIB = "exec dd if=/dev/zero of=/dev/null bs=96M"
_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Outside:
    """A sandbox as somebody else on the host sees it: processes, cgroup folders, a container."""

    backend: Backend
    sandbox: Any  # a Sandbox, and the backend's own means beside
    study: str
    ceiling_bytes: int | None = None

    @property
    def is_docker(self) -> bool:
        """Whether the sandbox is a container of an engine."""
        return self.backend.info.backend == "docker"

    @property
    def container(self) -> Any:
        """The container, by the engine's client."""
        return self.backend.client.containers.get(self.sandbox.container_id)  # type: ignore[attr-defined]

    @property
    def holder_pid(self) -> int:
        """The host's process id of process 1 inside."""
        if self.is_docker:
            return int(self.container.attrs["State"]["Pid"])
        return int(self.sandbox.holder_pid)

    def wait_for(self, path: str) -> None:
        """Wait until a file is there inside."""
        until = time.monotonic() + _WAIT_SECONDS
        while self.sandbox.read(path, max_bytes=1) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"{path} did not appear in the sandbox")
            time.sleep(0.02)

    def processes(self, words: str) -> Iterator[int]:
        """The host's process ids inside whose command line holds these words."""
        members = self._in_namespace() if self._has_no_cgroup else self._in_cgroup()
        for pid in members:
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                if words in command.decode(errors="replace"):
                    yield pid

    @property
    def _has_no_cgroup(self) -> bool:
        return self.backend.info.cgroup_version is None

    def _in_cgroup(self) -> Iterator[int]:
        for file in self.cgroup_folder("memory").rglob("cgroup.procs"):
            yield from map(int, file.read_text().split())

    def _in_namespace(self) -> Iterator[int]:
        inside = Path(f"/proc/{self.holder_pid}/ns/pid").readlink()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "ns/pid").readlink() == inside:
                    yield int(folder.name)

    def cgroup_folder(self, controller: str) -> Path:
        """The host's folder of the sandbox's cgroup (version 2: of all controllers)."""
        if not self.is_docker:
            return Path(self.sandbox._opened.cgroup.folders[controller])
        version = self.backend.info.cgroup_version
        for line in Path(f"/proc/{self.holder_pid}/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if version == 2 and names == "":
                return Path("/sys/fs/cgroup") / path.lstrip("/")
            if controller in names.split(","):
                return Path("/sys/fs/cgroup", names) / path.lstrip("/")
        raise LookupError(f"the container has no {controller} cgroup")


# --- signals -------------------------------------------------------------------------------------


def kill_the_step(outside: Outside) -> None:
    """SIGKILL from the host to the solution's own process."""
    pids = list(outside.processes("/solution/solve.sh"))
    assert pids, "the solution's process was not found on the host"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def kill_the_holder(outside: Outside) -> None:
    """SIGKILL from the host to process 1 inside."""
    os.kill(outside.holder_pid, signal.SIGKILL)


def stop_for_a_second(outside: Outside) -> None:
    """Freeze the sandbox, and let it go on a second later."""
    freeze_for_good(outside)
    time.sleep(1.0)
    if outside.is_docker:
        outside.container.unpause()
    else:
        for pid in (*outside.processes(""), outside.holder_pid):
            _signal(pid, signal.SIGCONT)


def freeze_for_good(outside: Outside) -> None:
    """Freeze the sandbox: `docker pause`, or SIGSTOP to the holder and all inside."""
    if outside.is_docker:
        outside.container.pause()
    else:
        for pid in (outside.holder_pid, *outside.processes("")):
            _signal(pid, signal.SIGSTOP)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, number)


def make_the_holder_the_first_victim(outside: Outside) -> None:
    """Let the kernel choose process 1 inside before all others."""
    Path(f"/proc/{outside.holder_pid}/oom_score_adj").write_text("1000")


# --- the container itself ------------------------------------------------------------------------


def remove(outside: Outside) -> None:
    """Remove the sandbox while its step runs."""
    assert outside.backend.sweep(outside.study) == 1


def restart(outside: Outside) -> None:
    """Restart the container while its step runs."""
    try:
        outside.container.restart(timeout=0)
    except APIError as error:  # the trial has seen its end, and removes it already
        if "removal" not in str(error.explanation) and error.status_code != 404:
            raise


def stop(outside: Outside) -> None:
    """Stop the container as `docker stop` does: SIGTERM, then SIGKILL."""
    outside.container.stop(timeout=1)


# --- neighbours ----------------------------------------------------------------------------------


def greed_beside(outside: Outside) -> None:
    """Open two more sandboxes below the same ceiling, and have one pass it until it is killed."""
    with contextlib.ExitStack() as stack:
        idle, greedy = (
            stack.enter_context(outside.backend.open(_request(outside, name)))
            for name in ("idle", "greedy")
        )
        killed = greedy.exec(["sh", "-c", HOLD_96_MIB], timeout_seconds=60.0)
        assert killed.exit_code == 137, f"the greedy one was not killed: {killed}"
        assert idle.is_alive()


def greed_beside_then_go(outside: Outside) -> None:
    """The same, and then let the solution go on."""
    greed_beside(outside)
    _write_go(outside.sandbox)


def greed_beside_then_end(outside: Outside) -> None:
    """The same, and then kill the sandbox's own holder."""
    greed_beside(outside)
    kill_the_holder(outside)


def _request(outside: Outside, name: str) -> SandboxRequest:
    given = allocation(None, memory_guarantee_bytes=8 * MIB)
    return request_for(
        outside.backend, outside.study, given, trial=name, ceiling_bytes=outside.ceiling_bytes
    )


# --- cgroups -------------------------------------------------------------------------------------


def limit_processes(outside: Outside) -> None:
    """Set a limit of 64 processes on the sandbox."""
    (outside.cgroup_folder("pids") / "pids.max").write_text("64")


def move_into_a_sub_cgroup(outside: Outside) -> None:
    """Move the solution into a cgroup below the sandbox's own, without a limit there."""
    inner = outside.cgroup_folder("memory") / "made-by-the-task"
    inner.mkdir(exist_ok=True)
    for pid in outside.processes("/solution/solve.sh"):
        (inner / "cgroup.procs").write_text(str(pid))
    _write_go(outside.sandbox)


def _write_go(sandbox: Sandbox) -> None:
    sandbox.exec(["sh", "-c", ": >/tmp/go"])
