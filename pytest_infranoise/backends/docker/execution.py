"""One command in a running container, to its end or its deadline.

The client library's own `exec_run` has no deadline, and its stream ends only when the last process
that holds it ends. Here the engine's word that the command has exited ends the step.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docker import DockerClient
from docker.errors import APIError

from pytest_infranoise.backends.base import OUTPUT_TAIL_BYTES
from pytest_infranoise.backends.docker.deaths import Holder
from pytest_infranoise.backends.docker.failures import engine_calls, is_gone
from pytest_infranoise.backends.docker.stream import STDERR, STDOUT, ExecStream, FrameReader
from pytest_infranoise.backends.output import OutputTail
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import SIGKILL_EXIT, Cause

# How often a quiet command is asked after: a fiftieth of the time it has run, within bounds.
_LOOK_SHARE = 0.02
_LOOK_SECONDS = (0.2, 2.0)
# What the command wrote before its end may still be on its way when the engine knows of the end.
_DRAIN_QUIET_SECONDS = 0.03
_DRAIN_AT_MOST_SECONDS = 1.0
_AFTER_KILL_SECONDS = 10.0
_DEATH_NEWS_SECONDS = 0.25

NOT_EXECUTABLE = 126
NOT_FOUND = 127
_REFUSALS = ("OCI runtime exec failed", "unable to find user", "unable to find group")
# How the runtime says that its first process in the container, which the kernel charges to the
# container, died before it could become the command.
_DEATHS_AT_BIRTH = ("OOM-killed", "init-p", "procReady", "signal: killed", "unexpected EOF")

_MISSING = ("executable file not found", ": no such file or directory")
_NO_FOLDER = "chdir to cwd"
# What the runtime's process says if it cannot become the command: no error to the engine.
_NO_INTERPRETER, _NO_FORMAT = ": no such file or directory\n", ": exec format error\n"


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """What to run; `user` None is root, `workdir` None the container's."""

    command: Sequence[str]
    timeout_seconds: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    tail_bytes: int = OUTPUT_TAIL_BYTES
    with_stderr: bool = True


@dataclass(frozen=True, slots=True)
class ExecOutcome:
    """How it ended; `exit_code` is None at a deadline.

    `refusal` is what the engine said of a command that never ran.
    """

    exit_code: int | None
    output: OutputTail
    wall_seconds: float
    refusal: str = ""

    @property
    def lacks_folder(self) -> bool:
        """Whether there was no working folder to run it in."""
        return _NO_FOLDER in self.refusal and "permission denied" not in self.refusal

    def has_no_format(self, command: Sequence[str]) -> bool:
        """Whether it is a script that does not name its interpreter."""
        return bool(self.exit_code) and self.output.text == f"exec {command[0]}{_NO_FORMAT}"


def run_exec(
    client: DockerClient,
    container_id: str,
    request: ExecRequest,
    *,
    holder: Holder,
    kill: Callable[[], None] | None = None,
) -> ExecOutcome:
    """Run a command; at the deadline `kill` is called to end it.

    `holder` is the container's first process.

    Raises:
        SandboxError: the container or the engine is gone.
    """
    began = time.monotonic()
    output = OutputTail(request.tail_bytes)
    with engine_calls("running a command"):
        run = _Run(client, container_id, request, output)
        try:
            exit_code = run.wait(began, request.timeout_seconds)
            wall_seconds = time.monotonic() - began
            if exit_code is None and kill is not None:
                kill()
                run.wait(time.monotonic(), _AFTER_KILL_SECONDS)
        finally:
            run.close()
        if exit_code == SIGKILL_EXIT:
            _require_running(client, container_id, holder)
    return ExecOutcome(exit_code, output, wall_seconds, run.refusal)


def _require_running(client: DockerClient, container_id: str, holder: Holder) -> None:
    """Tell a command that was killed from one that died with its container.

    When PID 1 ends the kernel kills the rest first, so the engine hears of the command before it
    hears of the container. One that was restarted since is another one.
    """
    until = time.monotonic() + _DEATH_NEWS_SECONDS
    while not holder.is_ending():
        if client.api.inspect_container(container_id)["State"]["Pid"] != holder.pid:
            break
        if time.monotonic() >= until:
            return
        time.sleep(0.02)
    raise SandboxError(Cause.SANDBOX_LOST, "the container ended under its command")


class _Run:
    """The exec behind one command: its stream, and the engine's view of its process."""

    def __init__(
        self, client: DockerClient, container_id: str, request: ExecRequest, output: OutputTail
    ) -> None:
        self._api = client.api
        self._output = output
        self._command = request.command
        self._refused: int | None = None
        self.refusal = ""
        self._stream: ExecStream | None = None
        self._frames = FrameReader(self._take)
        self._with_stderr = request.with_stderr
        self._id: str = self._api.exec_create(
            container_id,
            list(request.command),
            environment=dict(request.environment),
            workdir=request.workdir,
            user=request.user or "0",
        )["Id"]
        self._start()

    def _start(self) -> None:
        try:
            self._stream = ExecStream(self._api.exec_start(self._id, socket=True))
        except APIError as error:
            message = str(error.explanation or "")
            if is_gone(error) or not is_refusal(message):
                raise
            self._output.add(message.encode())
            self._refused = self._refuse(message)

    def _refuse(self, message: str) -> int:
        self.refusal = message
        return code_of_refusal(message)

    def _take(self, stream: int, content: bytes) -> None:
        if stream == STDOUT or (stream == STDERR and self._with_stderr):
            self._output.add(content)

    def wait(self, began: float, timeout_seconds: float | None) -> int | None:
        """Return the exit code, or None when the time is up."""
        if self._refused is not None:
            return self._refused
        deadline = None if timeout_seconds is None else began + timeout_seconds
        next_look = _next_look(began)
        pause = 0.005
        while deadline is None or time.monotonic() < deadline:
            limit = next_look if deadline is None else min(next_look, deadline)
            if self._stream is not None:
                if self._read(limit - time.monotonic()) and time.monotonic() < next_look:
                    continue
            else:  # its output is closed, but it may still run
                time.sleep(max(0.0, min(pause, limit - time.monotonic())))
                pause = min(2 * pause, _LOOK_SECONDS[0])
            state = self._api.exec_inspect(self._id)
            if not state["Running"]:
                self._drain()
                return self._exit_code(state)
            next_look = _next_look(began)
        return None

    def _read(self, timeout_seconds: float) -> bool:
        """Take what is there; False when nothing came in time or the stream has ended."""
        if self._stream is None:
            return False
        data = self._stream.read(timeout_seconds)
        if data == b"":
            self.close()
        if not data:
            return False
        self._frames.feed(data)
        return True

    def _drain(self) -> None:
        until = time.monotonic() + _DRAIN_AT_MOST_SECONDS
        while time.monotonic() < until and self._read(_DRAIN_QUIET_SECONDS):
            pass

    def _exit_code(self, state: dict[str, Any]) -> int:
        code = int(state["ExitCode"])
        text = self._output.text
        never_ran = code == NOT_EXECUTABLE and not state.get("Pid") and is_refusal(text)
        if never_ran:
            return self._refuse(text)
        if code and text == f"exec {self._command[0]}{_NO_INTERPRETER}":
            return NOT_FOUND
        return code

    def close(self) -> None:
        """Hang up the stream."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _next_look(began: float) -> float:
    now = time.monotonic()
    shortest, longest = _LOOK_SECONDS
    return now + min(max(_LOOK_SHARE * (now - began), shortest), longest)


def is_refusal(message: str) -> bool:
    """Whether an engine's message says that it cannot run this command as asked.

    The user or the folder does not exist, say: some engines print it as the command's output and
    return 126, others refuse the call.
    """
    return any(words in message for words in _REFUSALS)


def code_of_refusal(message: str) -> int:
    """Return 137 if the command was killed before it began, 127 if it is missing, else 126."""
    if any(words in message for words in _DEATHS_AT_BIRTH):
        return SIGKILL_EXIT
    is_missing = _NO_FOLDER not in message and any(words in message for words in _MISSING)
    return NOT_FOUND if is_missing else NOT_EXECUTABLE
