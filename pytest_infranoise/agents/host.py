"""An agent that is a Python function on the host: `--infra-agent=module:function`.

The function is called as `function(instruction, sandbox)` in a thread of its own. It has the
phase's deadline: what it runs in the sandbox gets the time that is left, and after the deadline
everything in the sandbox is killed and every further call is refused. Python cannot end a thread,
so a function that waits for something else then (a model, say) goes on until that returns; the
trial does not wait for it longer than `GRACE_SECONDS`, and its record says so.
"""

import asyncio
import importlib
import inspect
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_infranoise.agents.base import ON_HOST, AgentResult, AgentStep
from pytest_infranoise.backends.base import SHELL, Sandbox, StepResult
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.outcome import Cause, Ending
from pytest_infranoise.model.task import Task
from pytest_infranoise.model.usage import Usage, usage_of

GRACE_SECONDS = 5.0
"""How long a function may take to return after its deadline."""
_LAST_STEP_SECONDS = 60.0
_TRACEBACK_CHARACTERS = 8000

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class AgentDeadlineError(TimeoutError):
    """The agent's time is up: everything in the sandbox was killed, and nothing more runs there."""


class AgentSandbox:
    """What a function on the host works in: a sandbox, for the phase and until its deadline.

    Methods can be called from any thread; one call runs at a time. Every one raises
    `AgentDeadlineError` when the phase's time is up, and `SandboxError` when the sandbox or its
    engine is gone.
    """

    def __init__(self, sandbox: Sandbox, step: AgentStep) -> None:
        self._sandbox = sandbox
        self._step = step
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._is_closed = False
        self.hit_deadline = False
        self.last_output = ""

    @property
    def task(self) -> Task:
        """The task."""
        return self._step.task

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that every command gets (`INFRA_SEED` and others)."""
        return self._step.environment

    @property
    def remaining_seconds(self) -> float | None:
        """The time that is left, None without a deadline."""
        limit = self._step.timeout_seconds
        return None if limit is None else max(0.0, limit - self.wall_seconds)

    @property
    def wall_seconds(self) -> float:
        """How long the phase has lasted."""
        return time.monotonic() - self._began

    def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
    ) -> StepResult:
        """Run one command to its end: a string by the sandbox's `sh -c`, a list as it is.

        It runs as the task's agent user in the task's working folder unless said otherwise. When
        `timeout_seconds` are over before the phase's deadline, everything in the sandbox is killed
        and the result has the ending `deadline`. A command that the kernel killed has the exit code
        137.

        Raises:
            AgentDeadlineError: the phase's deadline came first.
            SandboxError: the sandbox or its engine is gone.
        """
        argv = [SHELL, "-c", command] if isinstance(command, str) else list(command)
        with self._open():
            remaining = self.remaining_seconds
            limits = [item for item in (timeout_seconds, remaining) if item is not None]
            result = self._sandbox.exec(
                argv,
                timeout_seconds=min(limits, default=None),
                environment={**self._step.environment, **(environment or {})},
                workdir=workdir or self._step.task.workdir,
                user=user or self._step.user,
            )
            self.last_output = result.output
            if result.ending is Ending.DEADLINE and self.is_expired:
                raise self._too_late()
            return result

    def put(self, source: str | Path, target: str) -> None:
        """Copy a host file to the path `target`, or the contents of a host folder into it."""
        with self._open():
            self._sandbox.put(Path(source), target)

    def get(self, source: str, target: str | Path) -> None:
        """Copy a file or folder out of the sandbox to the host path `target`."""
        with self._open():
            self._sandbox.get(source, Path(target))

    def read(self, path: str, *, max_bytes: int = 1 << 20) -> bytes | None:
        """Return a file's last `max_bytes` bytes, or None if there is no such regular file."""
        with self._open():
            return self._sandbox.read(path, max_bytes=max_bytes)

    @property
    def is_expired(self) -> bool:
        """Whether the deadline has passed."""
        remaining = self.remaining_seconds
        return remaining is not None and remaining <= 0

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed or self.is_expired:
                raise self._too_late()
            yield

    def _too_late(self) -> AgentDeadlineError:
        self.hit_deadline = True
        return AgentDeadlineError("the agent's time is up")

    def shut(self) -> None:
        """Refuse every further call."""
        self._is_closed = True

    def wait_until_idle(self) -> None:
        """Return when no call is running any more: each has a deadline of its own."""
        if self._lock.acquire(timeout=_LAST_STEP_SECONDS):
            self._lock.release()


HostFunction = Callable[[str, AgentSandbox], Any]


@dataclass(slots=True)
class _Run:
    """A call of the function in its thread, and what became of it."""

    function: HostFunction
    instruction: str
    sandbox: AgentSandbox
    result: Any = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._call, name="infranoise-agent", daemon=True).start()

    def _call(self) -> None:
        try:
            result = self.function(self.instruction, self.sandbox)
            self.result = asyncio.run(result) if inspect.iscoroutine(result) else result
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told of below
            self.error = error
        finally:
            self.done.set()


@dataclass(frozen=True, slots=True)
class HostAgent:
    """A function on the host that works on a task through its sandbox."""

    name: str
    function: HostFunction
    is_reference: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """The function's name, and that it runs outside of the trial's limits."""
        return {"function": self.name, "location": ON_HOST}

    def check(self, task: Task) -> None:
        """Refuse a task that gives no instruction."""
        if task.instruction is None and not task.steps:
            raise UsageError(
                f"{task.directory or task.name}: it has no instruction, which --infra-agent="
                f"{self.name} is called with; choose another --infra-agent"
            )

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        """Nothing is needed."""

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        """Call the function, and end the phase at its deadline.

        What it raises is its own failure, as an exit code of 1 is a command's; but a `SandboxError`
        that it lets pass is the provider's.
        """
        inside = AgentSandbox(sandbox, step)
        call = _Run(self.function, step.task.instruction or "", inside)
        call.start()
        try:
            is_done = call.done.wait(step.timeout_seconds)
        finally:
            # Also at Ctrl-C: nothing may work on in a sandbox that is about to be closed.
            inside.shut()
        seconds = inside.wall_seconds
        if not is_done:
            inside.wait_until_idle()
            return self._overrun(sandbox, call, seconds)
        if isinstance(call.error, SandboxError):
            raise call.error
        if inside.hit_deadline:  # whatever the function made of it
            usage, notes = self._usage(call.result)
            return AgentResult(
                Ending.DEADLINE, None, seconds, inside.last_output, usage=usage, notes=notes
            )
        if call.error is not None:
            text = "".join(traceback.format_exception(call.error))[-_TRACEBACK_CHARACTERS:]
            return AgentResult(Ending.EXIT, 1, seconds, text, len(text))
        return self._answer(call.result, seconds, inside.last_output)

    def _overrun(self, sandbox: Sandbox, call: _Run, seconds: float) -> StepResult:
        """End a call that outlasts its deadline, as far as that is possible."""
        sandbox.kill_all()
        notes: tuple[str, ...] = ()
        if not call.done.wait(GRACE_SECONDS):
            notes = (
                f"{self.name} had not returned {GRACE_SECONDS:g} s after its deadline; its thread "
                "was left behind, without a sandbox",
            )
        usage, unusable = self._usage(call.result)
        return AgentResult(
            Ending.DEADLINE,
            None,
            seconds,
            call.sandbox.last_output,
            usage=usage,
            notes=(*notes, *unusable),
        )

    def _usage(self, answer: Any) -> tuple[Usage | None, tuple[str, ...]]:
        """Return what the function says that it has used, and a note on what cannot be used."""
        if isinstance(answer, Usage):
            return answer, ()
        if not isinstance(answer, Mapping):
            return None, ()
        usage, note = usage_of(answer, source=f"the answer of {self.name}")
        return usage, () if note is None else (note,)

    def _answer(self, answer: Any, seconds: float, output: str) -> StepResult:
        """Return what the function's own answer comes to."""
        if isinstance(answer, StepResult):
            return answer
        if isinstance(answer, Usage | Mapping):
            usage, notes = self._usage(answer)
            return AgentResult(Ending.EXIT, 0, seconds, output, usage=usage, notes=notes)
        if answer is None:
            return StepResult(Ending.EXIT, 0, seconds, output)
        raise SandboxError(
            Cause.HARNESS,
            f"{self.name} returned {type(answer).__name__}; None, a StepResult or a dict with its "
            "usage is what it can return",
        )


def is_host_agent(text: str) -> bool:
    """Whether `--infra-agent` names a function, `module:function`, and no command line."""
    return _NAME.fullmatch(text) is not None


def host_agent(text: str, root: Path) -> HostAgent:
    """Import the function that `--infra-agent=module:function` names; `root` is searched first.

    Raises:
        UsageError: there is no such module or function, or it does not take two arguments.
    """
    where = f"--infra-agent={text}"
    module_name, _, name = text.partition(":")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script that ends would end the session, unrun
        raise UsageError(
            f"{where}: {module_name} cannot be imported from {root}: "
            f"{type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{where}: {module_name} has no function {name}")
    try:
        inspect.signature(function).bind("", None)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{where}: it is called as {name}(instruction, sandbox): {error}"
        ) from error
    return HostAgent(text, function)
