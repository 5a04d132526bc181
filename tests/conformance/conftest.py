"""The engines of the conformance suite, and the file of results that the table is made from.

INFRANOISE_CONFORMANCE=quick|normal|full chooses how much is played (default normal: all but what
takes half a minute; quick: what an emulated machine can play in minutes). INFRANOISE_REPEAT=N is
how often races are played (default once; twenty times by night).
INFRANOISE_CONFORMANCE_RESULTS=FOLDER has each engine's results written to FOLDER/<engine>.json.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from results import Results
from scenario import Scenario

from pytest_infranoise.backends.base import Backend


@pytest.fixture(scope="session")
def results() -> Iterator[Results]:
    collected = Results()
    yield collected
    folder = os.environ.get("INFRANOISE_CONFORMANCE_RESULTS")
    if folder:
        collected.write(Path(folder))


@pytest.fixture(scope="session")
def watchdog_backend(local_backend: Backend) -> Iterator[Backend]:
    from pytest_infranoise.backends.local import LocalBackend

    backend = LocalBackend(use_cgroups=False)
    yield backend
    backend.close()


@pytest.fixture(scope="session", params=["docker", "local", "watchdog"])
def engine(request: pytest.FixtureRequest, real_engine: None) -> Backend:
    """Each engine in turn; the same scenarios run on all of them."""
    backend: Backend = request.getfixturevalue(f"{request.param}_backend")
    return backend


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the chosen amount leaves out."""
    amount = os.environ.get("INFRANOISE_CONFORMANCE", "normal")
    left_out = [item for item in items if not _is_in(amount, item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_in(amount: str, item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    scenario = parameters.get("scenario")
    if not isinstance(scenario, Scenario) or amount == "full":
        return True
    if amount == "normal":
        return not scenario.is_slow
    return scenario.is_core or (scenario.is_quick and parameters["engine"] != "docker")
