"""Features of the format that are not built yet: each is refused by name, none is ignored.

A task that runs without something it asks for is another task, and its result says nothing about
the declared one. To build a feature, take its rule out of here and read the table where the task
is made.
"""

from collections.abc import Iterator
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.place import Place
from pytest_infranoise.tasks.schema import StepTable, TaskFile

_KEYS = (
    ("environment", "gpus", "a task that needs GPUs"),
    ("environment", "tpu", "a task that needs TPUs"),
    ("environment", "mcp_servers", "MCP servers for the agent"),
    ("environment", "skills_dir", "a folder of skills for the agent"),
    ("verifier", "environment", "a separate verifier environment"),
    ("verifier", "collect", "commands to collect results"),
)
_FILES = (
    ("environment/docker-compose.yaml", "a task of several containers"),
    ("trajectory.json", "earlier context for the agent"),
)


def refuse_unsupported(file: TaskFile, directory: Path, place: Place) -> None:
    """Raise a `UsageError` naming file and key of the first feature that is not supported."""
    for where, feature in _found(file, directory, place):
        raise UsageError(f"{where}: {feature}, which is not supported yet; leave this task out")


def _found(file: TaskFile, directory: Path, place: Place) -> Iterator[tuple[str, str]]:
    if file.environment.os.lower() != "linux":
        yield place.key("environment", "os"), f"a task for {file.environment.os}"
    for table, key, feature in _KEYS:
        if getattr(getattr(file, table), key) not in (None, 0, []):
            yield place.key(table, key), feature
    if file.verifier.environment_mode == "separate":
        yield place.key("verifier", "environment_mode"), "a separate verifier environment"
    yield from _network(file, place)
    for number, step in enumerate(file.steps):
        yield from _in_step(file, step, number, place)
    for name, feature in _FILES:
        if (directory / name).is_file():
            yield f"{place.file.removesuffix('task.toml')}{name}", feature


def _in_step(
    file: TaskFile, step: StepTable, number: int, place: Place
) -> Iterator[tuple[str, str]]:
    for key, feature in (
        ("environment", "a separate verifier environment"),
        ("collect", "commands to collect results"),
    ):
        if getattr(step.verifier, key) not in (None, []):
            yield place.key("steps", number, "verifier", key), feature
    if step.verifier.environment_mode == "separate":
        where = place.key("steps", number, "verifier", "environment_mode")
        yield where, "a separate verifier environment"
    for name, table in (("agent", step.agent), ("verifier", step.verifier)):
        where = place.key("steps", number, name, "network_mode")
        yield from _phase_network(file, table.network_mode, where)


def _phase_network(file: TaskFile, mode: str | None, where: str) -> Iterator[tuple[str, str]]:
    if mode == "allowlist":
        yield where, "a list of allowed hosts"
    elif mode is not None and mode != effective_network(file):
        yield where, f"a network of its own for one phase (the task's is {effective_network(file)})"


def _network(file: TaskFile, place: Place) -> Iterator[tuple[str, str]]:
    for table in ("environment", "agent", "verifier"):
        mode = getattr(file, table).network_mode
        yield from _phase_network(file, mode, place.key(table, "network_mode"))


def effective_network(file: TaskFile) -> str:
    """Return the environment's network mode; `allow_internet` is its older spelling."""
    if file.environment.network_mode is not None:
        return file.environment.network_mode
    return "no-network" if file.environment.allow_internet is False else "public"
