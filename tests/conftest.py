"""Engines for the tests that need real ones, and what workers of xdist must not share.

On a machine without an engine its tests are skipped, visibly. CI sets INFRANOISE_REQUIRE_DOCKER=1
and INFRANOISE_REQUIRE_LOCAL=1, which turn such a skip into a failure. What uses one of these
fixtures, however far down, carries the marker `engine`: `-m "not engine"` leaves it out.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from required import missing_engine
from sandboxes import BUSYBOX, PYTHON, allocation, request_for
from shared import SharedFolder, make_shared

from pytest_infranoise.backends.base import Backend, Sandbox
from pytest_infranoise.errors import BackendUnavailableError, UsageError
from pytest_infranoise.model.resources import Allocation

pytest_plugins = ["pytester"]
collect_ignore = ["terminal_bench_style"]  # benchmark tasks: test_terminal_bench_style runs them


def pytest_configure(config: pytest.Config) -> None:
    """Let generated examples be slow: a busy machine is no failure."""
    os.environ.pop("GITHUB_STEP_SUMMARY", None)  # the sessions of tests are not the job's result
    if hasattr(config, "workerinput"):
        _part_from_other_workers()
    elif _is_about_tests(config):
        _let_children_keep_byte_code()
        if getattr(config.option, "maxschedchunk", 0) is None:
            config.option.maxschedchunk = 1  # most of them wait, each for another time
    if config.pluginmanager.hasplugin("hypothesispytest"):
        from hypothesis import settings

        settings.register_profile("infranoise", deadline=None)
        if not config.getoption("--hypothesis-profile", None):
            settings.load_profile("infranoise")


def _is_about_tests(config: pytest.Config) -> bool:
    """Whether tests run, not the example tasks: pytest has loaded this file for these as well."""
    paths = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return any(path in (_TESTS, *_TESTS.parents) or _TESTS in path.parents for path in paths)


def _let_children_keep_byte_code() -> None:
    """Spare hundreds of starts of pytest half a second each where no byte code may be written.

    It goes to a folder of this run's own; nothing is written beside the sources.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = _own_folder("byte-code")


def _own_folder(name: str) -> str:
    folder = tempfile.mkdtemp(prefix=f"infranoise-tests-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _part_from_other_workers() -> None:
    """Give a worker of xdist ledgers of its own; the sessions of tests are nobody's workers."""
    worker = os.environ.pop("PYTEST_XDIST_WORKER")
    os.environ.pop("PYTEST_XDIST_TESTRUNUID", None)
    os.environ.pop("PYTEST_XDIST_WORKER_COUNT", None)
    os.environ["XDG_RUNTIME_DIR"] = _own_folder(worker)


_IMAGES = {BUSYBOX: "busybox", PYTHON: "python"}
_TESTS = Path(__file__).parent
_SCRIPTS = _TESTS / "engines"


def _open_docker(**options: Any) -> Any:
    from pytest_infranoise.backends.docker.backend import DockerBackend

    try:
        return DockerBackend(**options)
    except BackendUnavailableError as error:
        missing_engine("docker", error)


def _open_local(**options: Any) -> Any:
    try:
        from pytest_infranoise.backends.local import LocalBackend

        return LocalBackend(**options)
    except (ImportError, BackendUnavailableError) as error:
        missing_engine("local", error)


@pytest.fixture(scope="session")
def real_engine() -> None:
    """What every fixture that opens an engine asks for: it marks its tests."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "real_engine" in getattr(item, "fixturenames", ()):
            item.add_marker("engine")


@pytest.fixture(scope="session")
def shared_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SharedFolder:
    """Return a function that gives a folder which is made once: `shared_folder(name, fill)`."""
    among_workers = hasattr(request.config, "workerinput")
    return make_shared(tmp_path_factory, among_workers=among_workers)


@pytest.fixture(scope="session")
def docker_backend(real_engine: None) -> Iterator[Any]:
    backend = _open_docker()
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def open_local_backend(real_engine: None) -> Callable[..., Any]:
    """Return a function that opens the local backend in a special form."""
    return _open_local


@pytest.fixture(scope="session")
def local_backend(real_engine: None) -> Iterator[Any]:
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
def backend(request: pytest.FixtureRequest, real_engine: None) -> Backend:
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
