"""The owner's side of a sandbox's holder: start it, ask it, see that it is gone."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pytest_infranoise.backends.local.inside import wire

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from inside.holder import main; "
    "main(int(sys.argv[2]))"
)
_START_SECONDS = 60.0
_LOOK_SECONDS = 1.0


class HolderGoneError(Exception):
    """The holder does not answer any more: it was killed, or the sandbox was swept."""


class HolderStartError(Exception):
    """The sandbox could not be made; `stage` says where (see `inside.holder.main`)."""

    def __init__(self, stage: str, error: str, number: int | None) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage = stage
        self.number = number


@dataclass(frozen=True, slots=True)
class Plan:
    """What the holder makes before it serves.

    `namespaces` are the flags of unshare(2), `operations` the mounts (see `inside.mounting`),
    relative to `folder`, `root` what becomes the root, `cgroup_procs` the files that each step
    writes itself into.
    """

    namespaces: int
    folder: Path
    root: str
    operations: list[tuple[Any, ...]]
    cgroup_procs: tuple[Path, ...]


class Channel:
    """A started holder. Every call has a connection of its own, so threads need no lock."""

    def __init__(self) -> None:
        """Start the interpreter; `begin` tells it what to do, meanwhile the plan can be made."""
        self.shared_memory: int | None = None
        self.holder_pid: int | None = None
        self._holder: int | None = None
        self._lifeline, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        *("-I", "-S", "-c", _BOOT),
                        str(Path(__file__).parent),
                        str(theirs.fileno()),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError:
                self._lifeline.close()
                raise

    def begin(self, plan: Plan) -> None:
        """Make the sandbox and return when it serves.

        Raises:
            HolderStartError: it could not be made.
        """
        config = {
            "owner": os.getpid(),
            "namespaces": plan.namespaces,
            "folder": str(plan.folder),
            "root": plan.root,
            "operations": plan.operations,
            "cgroup_procs": [str(path) for path in plan.cgroup_procs],
        }
        try:
            with self._connect(config, ()) as connection:
                self._wait(connection, time.monotonic() + _START_SECONDS)
                answer, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
                if answer == b"+":
                    self.shared_memory = descriptors[0]
                    self.holder_pid = int(self._lifeline.recv(16))
                    self._holder = os.pidfd_open(self.holder_pid)
                    return
                problem = wire.receive(connection) if answer else None
        except HolderGoneError:
            problem = None
        if problem is None:
            problem = {"stage": "start", "error": "the sandbox's holder ended", "errno": None}
        raise HolderStartError(problem["stage"], problem["error"], problem["errno"])

    def call(
        self,
        request: Mapping[str, Any],
        *,
        descriptors: Iterable[int] = (),
        deadline: float | None = None,
    ) -> Any:
        """Return the answer to a request.

        `deadline` is on the clock of `time.monotonic`; the request itself goes on behind it.

        Raises:
            TimeoutError: no answer until the deadline.
            HolderGoneError: there will be none.
        """
        with self._connect(request, descriptors) as connection:
            self._wait(connection, deadline)
            answer = wire.receive(connection)
        if answer is None:
            raise HolderGoneError
        return answer

    def ask(self, request: Mapping[str, Any]) -> "Question":
        """Send a request whose answer is awaited in turns, with other calls in between."""
        return Question(self, self._connect(request, ()))

    def is_alive(self) -> bool:
        """Whether the holder still runs."""
        if self._holder is None:  # not yet, or no longer
            return self._process.poll() is None
        poll = select.poll()
        poll.register(self._holder, select.POLLIN)
        return not poll.poll(0)

    def end(self) -> None:
        """Kill the holder, with it everything in the sandbox, and return when all is gone."""
        with contextlib.suppress(ProcessLookupError):
            if self._holder is None:  # it never served: the keeper takes it along
                self._process.kill()
            else:
                signal.pidfd_send_signal(self._holder, signal.SIGKILL)
        self._process.wait()  # the keeper ends when the holder, and so its namespace, has ended
        self._lifeline.close()
        for descriptor in (self._holder, self.shared_memory):
            if descriptor is not None:
                os.close(descriptor)
        self._holder = self.shared_memory = None

    def _connect(self, request: Mapping[str, Any], descriptors: Iterable[int]) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._lifeline, [b"+"], [theirs.fileno(), *descriptors])
            ours.sendall(wire.pack(dict(request)))
        except OSError as problem:
            ours.close()
            raise HolderGoneError from problem
        return ours

    def _wait(self, connection: socket.socket, deadline: float | None) -> None:
        """Wait until something can be read.

        The holder's end is seen by the connection closing; looking at the process as well covers a
        copy of its other end in a process that was forked meanwhile.
        """
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        while True:
            left = _LOOK_SECONDS if deadline is None else deadline - time.monotonic()
            if poll.poll(max(0.0, min(left, _LOOK_SECONDS)) * 1000):
                return
            if left <= 0:
                raise TimeoutError
            if not self.is_alive() and not poll.poll(0):
                raise HolderGoneError


class Question:
    """A request under way."""

    def __init__(self, channel: Channel, connection: socket.socket) -> None:
        self._channel = channel
        self._connection = connection

    def answer(self, deadline: float | None) -> Any:
        """Return the answer; raises as `Channel.call`, and can be asked again after a timeout."""
        self._channel._wait(self._connection, deadline)
        answer = wire.receive(self._connection)
        if answer is None:
            raise HolderGoneError
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()
