"""What an agent is to a trial: something that prepares a sandbox and then works in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_infranoise.backends.base import Sandbox, StepResult
from pytest_infranoise.model.task import Task
from pytest_infranoise.model.usage import Usage

INSTRUCTION_PATH = "/infranoise/instruction.md"
"""Where the sandbox holds the task's instruction; `$INFRA_INSTRUCTION` names it."""


@dataclass(frozen=True, slots=True)
class AgentStep:
    """What an agent phase may use: its environment, deadline (None for none) and user."""

    task: Task
    environment: Mapping[str, str]
    timeout_seconds: float | None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class AgentResult(StepResult):
    """What became of an agent that says itself what it has used; without, its file is read.

    `notes` go to the trial's record.
    """

    usage: Usage | None = None
    notes: tuple[str, ...] = ()


IN_SANDBOX = "sandbox"
ON_HOST = "host"
"""Where an agent's own processes run: within the trial's limits, or outside of them (the value of
`location` in its settings)."""


class Agent(Protocol):
    """Works on a task in a sandbox; the trial measures what it does."""

    @property
    def name(self) -> str:
        """How reports call it."""

    @property
    def is_reference(self) -> bool:
        """Whether it is the oracle or nop: its samples say nothing about a model's score."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the manifest records of it, its `location` among it; never a secret."""

    def check(self, task: Task) -> None:
        """Refuse a task that this agent cannot work on.

        Raises:
            UsageError: one line that names the task and what is missing.
        """

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        """Put what the agent needs into the sandbox, before its clock starts."""

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        """Work on the task until done or the deadline; may return an `AgentResult`."""
