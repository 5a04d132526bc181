"""Which network a task's sandboxes have, from what its environment and its phases say.

A phase that names a mode overrules its environment. A sandbox has one mode from its first command
to its last, so it is that of its phases where they agree, and a task whose phases do not is
refused. A step that says nothing does as the task does.
"""

from collections.abc import Iterable, Iterator

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.place import Place
from pytest_infranoise.tasks.schema import (
    AgentTable,
    EnvironmentTable,
    NetworkMode,
    TaskFile,
    VerifierTable,
)
from pytest_infranoise.tasks.separation import is_separate

_Said = tuple[NetworkMode, str]
"""A phase's mode, and the key that says it."""


def agent_network(file: TaskFile, place: Place) -> NetworkMode:
    """Return the mode of the sandbox in which the agent works.

    Raises:
        UsageError: its phases do not agree.
    """
    own = (_own(file.environment), place.key("environment", "network_mode"))
    return _agreed(list(_phases(file, place, own)))


def verifier_network(environment: EnvironmentTable, levels: Iterable[VerifierTable]) -> NetworkMode:
    """Return the mode of a separate verifier's sandbox, which has one phase.

    `levels` are the tables that the phase goes by, nearest first.
    """
    said = (table.network_mode for table in levels)
    return next((mode for mode in said if mode is not None), _own(environment))


def _own(environment: EnvironmentTable) -> NetworkMode:
    """Return an environment's mode; `allow_internet` is its older spelling."""
    if environment.network_mode is not None:
        return environment.network_mode
    return "no-network" if environment.allow_internet is False else "public"


def _phases(file: TaskFile, place: Place, own: _Said) -> Iterator[_Said]:
    """Yield what the phases in the agent's sandbox say, in the order in which they run."""
    agent = _said(file.agent, place.key("agent", "network_mode"), own)
    verifier = _said(file.verifier, place.key("verifier", "network_mode"), own)
    if not file.steps:
        yield agent
        if not is_separate(file, file.verifier):
            yield verifier
    for number, step in enumerate(file.steps):
        below = place.below("steps", number)
        yield _said(step.agent, below.key("agent", "network_mode"), agent)
        if not is_separate(file, step.verifier):
            yield _said(step.verifier, below.key("verifier", "network_mode"), verifier)


def _said(table: AgentTable | VerifierTable, where: str, otherwise: _Said) -> _Said:
    return otherwise if table.network_mode is None else (table.network_mode, where)


def _agreed(said: list[_Said]) -> NetworkMode:
    first, where_first = said[0]
    for mode, where in said:
        if mode != first:
            if " [environment] " in where:  # name what overrules
                mode, where, first, where_first = first, where_first, mode, where
            other = where_first.partition(": ")[2]
            raise UsageError(
                f"{where}: {mode!r}, but {other} says {first!r}: a network of its own for one "
                "phase is not supported yet; leave this task out"
            )
    return first
