"""The agent that applies a patch which a model has made before: SWE-bench's predictions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_infranoise.agents.base import AgentStep
from pytest_infranoise.agents.files import put_folder
from pytest_infranoise.agents.shell import script_command
from pytest_infranoise.backends.base import Sandbox, StepResult
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import Task

FOLDER = "/infranoise/patch"


@dataclass(frozen=True, slots=True)
class PatchAgent:
    """Applies a model's patch.

    `name` is the model's; `files` holds, by task name, the texts of the patch and of the script
    `solve.sh` that applies it.
    """

    name: str
    files: Mapping[str, Mapping[str, str]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_reference: bool = False

    def check(self, task: Task) -> None:
        """Refuse a task for which there is no patch."""
        if task.name not in self.files:
            raise UsageError(
                f"{task.directory or task.name}: --infra-predictions has no patch for this task; "
                "leave it out or choose an --infra-agent"
            )

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        """Put the patch in."""
        put_folder(sandbox, FOLDER, (), self.files[task.name], script="solve.sh")

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        """Apply the patch; one that does not apply leaves its reason for the verification."""
        return sandbox.exec(
            script_command(sandbox, f"{FOLDER}/solve.sh", self.files[step.task.name]["solve.sh"]),
            timeout_seconds=step.timeout_seconds,
            environment=step.environment,
            workdir=step.task.workdir,
            user=step.user,
        )
