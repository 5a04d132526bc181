"""Backends by name, each imported only when it is asked for."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_infranoise.errors import BackendUnavailableError, UsageError

if TYPE_CHECKING:
    from pytest_infranoise.backends.base import Backend

AUTO = "auto"
BACKENDS = ("docker", "local")


def open_backend(
    name: str, *, informative_agent: bool, environment: Mapping[str, str] = os.environ
) -> "Backend":
    """Return the backend of that name; `auto` is docker if it answers, else local.

    By itself `auto` takes local only for the oracle and nop (`informative_agent` False): another
    agent's code is never moved from a container to the host without being told so. An engine that
    the environment names (DOCKER_HOST, DOCKER_CONTEXT) and that does not answer is never replaced.

    Raises:
        UsageError: no such backend, or the local one would have to be chosen in words.
        BackendUnavailableError: it does not answer, or the host lacks what it needs.
    """
    if name == "docker":
        return _docker(environment)
    if name == "local":
        return _local()
    if name == AUTO:
        return _automatic(informative_agent, environment)
    raise UsageError(f"--infra-backend: {name!r} is not one of {', '.join((AUTO, *BACKENDS))}")


def _docker(environment: Mapping[str, str]) -> "Backend":
    from pytest_infranoise.backends.docker.backend import DockerBackend

    return DockerBackend(environment)


def _local() -> "Backend":
    from pytest_infranoise.backends.local import LocalBackend

    return LocalBackend()


def _automatic(informative_agent: bool, environment: Mapping[str, str]) -> "Backend":
    from pytest_infranoise.backends.docker.connection import is_explicit

    try:
        return _docker(environment)
    except BackendUnavailableError as no_docker:
        if is_explicit(environment):
            raise
        if informative_agent:
            raise BackendUnavailableError(
                f"{no_docker}. The local backend runs an agent's code on this host, "
                "so only --infra-backend=local chooses it"
            ) from None
        try:
            return _local()
        except BackendUnavailableError as no_local:
            raise BackendUnavailableError(f"{no_docker}. Local backend: {no_local}") from None
