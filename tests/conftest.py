"""Engines for the tests that need real ones.

On a machine without an engine its tests are skipped, visibly. CI sets INFRANOISE_REQUIRE_DOCKER=1
and INFRANOISE_REQUIRE_LOCAL=1, which turn such a skip into a failure.
"""

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from required import missing_engine
from sandboxes import BUSYBOX, PYTHON, allocation, request_for

from pytest_infranoise.backends.base import Backend, Sandbox
from pytest_infranoise.errors import BackendUnavailableError, UsageError
from pytest_infranoise.model.resources import Allocation

pytest_plugins = ["pytester"]
collect_ignore = ["terminal_bench_style"]  # benchmark tasks: test_terminal_bench_style runs them


def pytest_configure(config: pytest.Config) -> None:
    """Let generated examples be slow: a busy machine is no failure."""
    os.environ.pop("GITHUB_STEP_SUMMARY", None)  # the sessions of tests are not the job's result
    if config.pluginmanager.hasplugin("hypothesispytest"):
        from hypothesis import settings

        settings.register_profile("infranoise", deadline=None)
        if not config.getoption("--hypothesis-profile", None):
            settings.load_profile("infranoise")


_IMAGES = {BUSYBOX: "busybox", PYTHON: "python"}
_SCRIPTS = Path(__file__).parent / "engines"


def _open_docker(**options: Any) -> Any:
    from pytest_infranoise.backends.docker.backend import DockerBackend

    try:
        return DockerBackend(**options)
    except BackendUnavailableError as error:
        missing_engine("docker", error)


def _open_local() -> Any:
    try:
        from pytest_infranoise.backends.local import LocalBackend

        return LocalBackend()
    except (ImportError, BackendUnavailableError) as error:
        missing_engine("local", error)


@pytest.fixture(scope="session")
def docker_backend() -> Iterator[Any]:
    backend = _open_docker()
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def local_backend() -> Iterator[Any]:
    backend = _open_local()
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def docker_image(docker_backend: Any) -> Callable[[str], str]:
    """Return a function that makes sure that an image of the tests is on the engine."""

    def ensure(name: str) -> str:
        if not docker_backend.client.images.list(name=name):
            command = [_SCRIPTS / "images.sh", _IMAGES[name]]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                missing_engine("docker", f"{name} cannot be made: {made.stderr[-500:]}")
        return name

    return ensure


@pytest.fixture(scope="session")
def compose_backend(docker_backend: Any, docker_image: Callable[[str], str]) -> Any:
    """The Docker backend on a machine that has a Compose too, with the small image."""
    from pytest_infranoise.backends.docker.compose_command import find_compose

    try:
        find_compose(docker_backend.endpoint)
    except UsageError as error:
        missing_engine("docker", error)
    docker_image(BUSYBOX)
    return docker_backend


@pytest.fixture(params=["docker", "local"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn; the conformance suite runs over all of them."""
    if request.param == "docker":
        request.getfixturevalue("docker_image")(BUSYBOX)
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.fixture
def study() -> str:
    """An id that no other test uses, so that leftovers are ours."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def open_sandbox(backend: Backend, study: str) -> Iterator[Callable[..., Sandbox]]:
    """Open sandboxes that are closed at the end: `open_sandbox(allocation(...), trial=...)`."""
    opened: list[Sandbox] = []

    def open_one(given: Allocation | None = None, **changes: Any) -> Sandbox:
        request = request_for(backend, study, given or allocation(), **changes)
        opened.append(backend.open(request))
        return opened[-1]

    yield open_one
    for sandbox in opened:
        sandbox.close()


@pytest.fixture
def sandbox(open_sandbox: Callable[..., Sandbox]) -> Sandbox:
    """A sandbox with 32 MiB and no CPU quota."""
    return open_sandbox()
