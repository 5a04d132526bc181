"""Benches on each engine."""

import importlib
import pkgutil
from collections.abc import Callable

import pytest
from bench import BUSYBOX, Bench

from pytest_infranoise import plugin
from pytest_infranoise.backends.base import Backend


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """Load what a session loads, before any pytester does.

    A pytester unloads at its end what came since its start: sessions within this process would
    load all of it each time, and NumPy refuses to be loaded twice.
    """
    for module in pkgutil.walk_packages(plugin.__path__, f"{plugin.__name__}."):
        importlib.import_module(module.name)
    importlib.import_module("pytest_infranoise.report.view")


@pytest.fixture(params=["docker", "local"])
def engine(request: pytest.FixtureRequest, real_engine: None) -> str:
    """Each backend in turn, by name."""
    if request.param == "docker":
        request.getfixturevalue("docker_image")(BUSYBOX)
    request.getfixturevalue(f"{request.param}_backend")
    return str(request.param)


@pytest.fixture
def bench(pytester: pytest.Pytester, engine: str) -> Bench:
    """A benchmark on each backend."""
    return Bench(pytester, engine)


@pytest.fixture
def one_bench(pytester: pytest.Pytester, docker_image: Callable[[str], str]) -> Bench:
    """A benchmark on the engine that CI always has, for what no backend can change."""
    docker_image(BUSYBOX)
    return Bench(pytester, "docker")


@pytest.fixture
def plain_bench(pytester: pytest.Pytester) -> Bench:
    """A benchmark for tests in which nothing is run."""
    return Bench(pytester, "auto")


@pytest.fixture
def local_bench(pytester: pytest.Pytester, local_backend: Backend) -> Bench:
    """A benchmark on the engine that starts fastest, for what takes many runs."""
    return Bench(pytester, "local")
