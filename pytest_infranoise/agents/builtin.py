"""The agents that need no model: the oracle, nobody, and a command line in the sandbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pytest_infranoise.agents.base import IN_SANDBOX, AgentStep
from pytest_infranoise.agents.files import put_folder, text_of
from pytest_infranoise.agents.shell import script_command
from pytest_infranoise.backends.base import SHELL, Sandbox, StepResult
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Ending
from pytest_infranoise.model.task import Task

BY_NAME = ("oracle", "nop", "hook")
"""The agents that a word alone names."""

_NEAR = 0.75
"""How alike a word must be to be taken for a misspelt one of these."""


@dataclass(frozen=True, slots=True)
class OracleAgent:
    """Runs the task's own reference solution, `solution/solve.sh`."""

    name: str = "oracle"
    is_reference: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self, task: Task) -> None:
        """Refuse a task without a reference solution (to one of its steps)."""
        if "solve.sh" in task.solution_files:
            return
        place = task.directory or task.name
        solutions = {f"{place}": task.solution}
        if task.steps:
            solutions = {f"{place}/steps/{step.name}": step.solution for step in task.steps}
        for where, solution in solutions.items():
            if solution is None or not (solution / "solve.sh").is_file():
                raise UsageError(
                    f"{where}: solution/solve.sh is missing, so the oracle cannot solve it; "
                    "add it or choose another --infra-agent"
                )

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        """Copy the solution to /solution, where the task's author expects it."""
        folders = [] if task.solution is None else [task.solution]
        put_folder(sandbox, "/solution", folders, task.solution_files, script="solve.sh")

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        """Run the solution by its own interpreter line; a lost x bit is no reason to fail."""
        task = step.task
        folders = [] if task.solution is None else [task.solution]
        text = text_of("solve.sh", folders, task.solution_files)
        return sandbox.exec(
            script_command(sandbox, "/solution/solve.sh", text),
            timeout_seconds=step.timeout_seconds,
            environment={**step.environment, **step.task.solution_environment},
            workdir=step.task.workdir,
            user=step.user,
        )


@dataclass(frozen=True, slots=True)
class NopAgent:
    """Does nothing: shows what verification alone needs, and that no task is solved from birth."""

    name: str = "nop"
    is_reference: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self, task: Task) -> None:
        """Every task can be left alone."""

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        """Nothing is needed."""

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        """Return at once."""
        return StepResult(Ending.EXIT, 0, 0.0)


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """A command line, run by the sandbox's shell as the task's agent user.

    `files` are pairs of a host path and where it is put in the sandbox.
    """

    command: str
    files: Sequence[tuple[Path, str]] = ()
    is_reference: bool = False

    @property
    def name(self) -> str:
        """The command line itself."""
        return self.command

    @property
    def settings(self) -> Mapping[str, Any]:
        """The command, the sandbox paths of its files, and that it runs within the limits."""
        return {
            "command": self.command,
            "files": [target for _, target in self.files],
            "location": IN_SANDBOX,
        }

    def check(self, task: Task) -> None:
        """A command can be tried on every task."""

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        """Put the agent's files in."""
        for source, target in self.files:
            sandbox.put(source, target)

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        """Run the command to its end or its deadline."""
        return sandbox.exec(
            [SHELL, "-c", self.command],
            timeout_seconds=step.timeout_seconds,
            environment=step.environment,
            workdir=step.task.workdir,
            user=step.user,
        )


def parse_agent_files(values: Sequence[str]) -> tuple[tuple[Path, str], ...]:
    """Read `HOST:SANDBOX` pairs.

    Raises:
        UsageError: no colon, a host path that does not exist, or a relative sandbox path.
    """
    pairs = []
    for value in values:
        source, colon, target = value.rpartition(":")
        where = f"--infra-agent-files={value}"
        if not (colon and source and target.startswith("/")):
            raise UsageError(f"{where}: write HOST:SANDBOX, the second an absolute path")
        path = Path(source).expanduser().absolute()
        if not path.exists():
            raise UsageError(f"{where}: {path} does not exist")
        pairs.append((path, target))
    return tuple(pairs)


def make_agent(text: str, files: Sequence[str] = ()) -> OracleAgent | NopAgent | CommandAgent:
    """Return the agent that `--infra-agent` names.

    Raises:
        UsageError: an empty command, or files for an agent that takes none.
    """
    text = text.strip()
    pairs = parse_agent_files(files)
    if text in ("oracle", "nop"):
        if pairs:
            raise UsageError(f"--infra-agent-files: the {text} agent takes no files")
        return OracleAgent() if text == "oracle" else NopAgent()
    if not text:
        raise UsageError(
            "--infra-agent: write oracle, nop, a command line, or module:function for a function "
            "on this host"
        )
    _refuse_near_miss(text)
    return CommandAgent(text, pairs)


def _refuse_near_miss(text: str) -> None:
    """Refuse a single word that was meant to be one of the agents by name.

    A command of such a name can still be run, by its path or in a longer command line.
    """
    if not text.isalpha():
        return
    near = get_close_matches(text.lower(), BY_NAME, n=1, cutoff=_NEAR)
    if near:
        raise UsageError(
            f"--infra-agent: {text!r} is not an agent; did you mean {near[0]}? A command of that "
            f"name is written with its path, or as 'exec {text}'"
        )
