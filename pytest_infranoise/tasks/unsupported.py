"""Features of the format that are not built yet: each is refused by name, none is ignored.

A task that runs without something it asks for is another task, and its result says nothing about
the declared one. To build a feature, take its rule out of here and read the table where the task
is made.
"""

from collections.abc import Iterator
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.place import Place
from pytest_infranoise.tasks.schema import AgentTable, EnvironmentTable, TaskFile, VerifierTable

_KEYS = (
    ("gpus", "a task that needs GPUs"),
    ("tpu", "a task that needs TPUs"),
    ("mcp_servers", "MCP servers for the agent"),
    ("skills_dir", "a folder of skills for the agent"),
)
_TRAJECTORY = "trajectory.json"


def refuse_unsupported(file: TaskFile, directory: Path, place: Place) -> None:
    """Raise a `UsageError` naming file and key of the first feature that is not supported."""
    for where, feature in _found(file, directory, place):
        raise UsageError(f"{where}: {feature}, which is not supported yet; leave this task out")


def _found(file: TaskFile, directory: Path, place: Place) -> Iterator[tuple[str, str]]:
    yield from _in_environment(file.environment, place)
    tables = [(file.verifier, place.below("verifier"))]
    tables += [
        (step.verifier, place.below("steps", number, "verifier"))
        for number, step in enumerate(file.steps)
    ]
    for verifier, below in tables:
        if verifier.environment is not None:
            yield from _in_environment(verifier.environment, below)
    yield from _lists_of_hosts(file, place)
    if (directory / _TRAJECTORY).is_file():
        where = f"{place.file.removesuffix('task.toml')}{_TRAJECTORY}"
        yield where, "earlier context for the agent"


def _in_environment(table: EnvironmentTable, place: Place) -> Iterator[tuple[str, str]]:
    if table.os.lower() != "linux":
        yield place.key("environment", "os"), f"a task for {table.os}"
    for key, feature in _KEYS:
        if getattr(table, key) not in (None, 0, []):
            yield place.key("environment", key), feature
    if table.network_mode == "allowlist":
        yield place.key("environment", "network_mode"), "a list of allowed hosts"


def _lists_of_hosts(file: TaskFile, place: Place) -> Iterator[tuple[str, str]]:
    for table, where in _phases(file, place):
        if table.network_mode == "allowlist":
            yield where, "a list of allowed hosts"


def _phases(file: TaskFile, place: Place) -> Iterator[tuple[AgentTable | VerifierTable, str]]:
    yield file.agent, place.key("agent", "network_mode")
    yield file.verifier, place.key("verifier", "network_mode")
    for number, step in enumerate(file.steps):
        yield step.agent, place.key("steps", number, "agent", "network_mode")
        yield step.verifier, place.key("steps", number, "verifier", "network_mode")
