"""Backends by name, each imported only when it is asked for.

A package of its own adds one by an entry point of the group `pytest_infranoise.backends`: its name
is what `--infra-backend` takes, its object is called with the environment and returns the backend
(`backends.base.Backend`), or raises `BackendUnavailableError` in one line.
"""

import os
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from pytest_infranoise.errors import BackendUnavailableError, InfranoiseError, UsageError

if TYPE_CHECKING:
    from pytest_infranoise.backends.base import Backend

AUTO = "auto"
GROUP = "pytest_infranoise.backends"

Opener = Callable[[Mapping[str, str]], "Backend"]
"""Opens a backend as an environment names it."""


def _docker(environment: Mapping[str, str]) -> "Backend":
    from pytest_infranoise.backends.docker.backend import DockerBackend

    return DockerBackend(environment)


def _local(environment: Mapping[str, str]) -> "Backend":
    from pytest_infranoise.backends.local import LocalBackend

    return LocalBackend()


_BUILT_IN: dict[str, Opener] = {"docker": _docker, "local": _local}


def backend_names() -> tuple[str, ...]:
    """Return the names of the built-in backends, then those that other packages add."""
    return (*_BUILT_IN, *sorted(_added()))


def check_name(name: str, *, where: str) -> None:
    """Refuse a name that no backend has; `where` is the option that gives it.

    Raises:
        UsageError: no such backend.
    """
    if name not in (AUTO, *_BUILT_IN) and name not in _added():
        known = ", ".join((AUTO, *backend_names()))
        raise UsageError(f"{where}: {name!r} is not one of {known}")


def open_backend(
    name: str, *, informative_agent: bool, environment: Mapping[str, str] = os.environ
) -> "Backend":
    """Return the backend of that name; `auto` is docker if it answers, else local.

    By itself `auto` takes local only for the oracle and nop (`informative_agent` False): another
    agent's code is never moved from a container to the host without being told so. An engine that
    the environment names (DOCKER_HOST, DOCKER_CONTEXT) and that does not answer is never replaced.
    A backend of another package is never chosen by itself.

    Raises:
        UsageError: no such backend, or the local one would have to be chosen in words.
        BackendUnavailableError: it does not answer, or the host lacks what it needs.
    """
    if name == AUTO:
        return _automatic(informative_agent, environment)
    check_name(name, where="--infra-backend")
    if name in _BUILT_IN:
        return _BUILT_IN[name](environment)
    return _open_added(_added()[name], environment)


def _added() -> dict[str, EntryPoint]:
    """Return the backends of other packages; a built-in name is never replaced."""
    return {
        item.name: item
        for item in entry_points(group=GROUP)
        if item.name != AUTO and item.name not in _BUILT_IN
    }


def _open_added(entry: EntryPoint, environment: Mapping[str, str]) -> "Backend":
    """Open another package's backend; whatever goes wrong in it is one line that names it."""
    try:
        opener: Opener = entry.load()
        return opener(environment)
    except InfranoiseError:
        raise
    except Exception as error:
        raise BackendUnavailableError(
            f"--infra-backend={entry.name}: {entry.value} cannot be opened: "
            f"{type(error).__name__}: {error}"
        ) from error


def _automatic(informative_agent: bool, environment: Mapping[str, str]) -> "Backend":
    from pytest_infranoise.backends.docker.connection import is_explicit

    try:
        return _BUILT_IN["docker"](environment)
    except BackendUnavailableError as no_docker:
        if is_explicit(environment):
            raise
        if informative_agent:
            raise BackendUnavailableError(
                f"{no_docker}. The local backend runs an agent's code on this host, "
                "so only --infra-backend=local chooses it"
            ) from None
        try:
            return _BUILT_IN["local"](environment)
        except BackendUnavailableError as no_local:
            raise BackendUnavailableError(f"{no_docker}. Local backend: {no_local}") from None
