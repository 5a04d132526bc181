"""Which backend a name means; no engine is needed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.backends import registry
from pytest_infranoise.errors import BackendUnavailableError, UsageError

DOCKER, LOCAL = object(), object()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that says which of the two backends this host has."""

    def has(*, docker: bool, local: bool) -> None:
        def open_docker(environment: Any) -> object:
            if not docker:
                raise BackendUnavailableError("no docker")
            return DOCKER

        def open_local(environment: Any) -> object:
            if not local:
                raise BackendUnavailableError("no namespaces")
            return LOCAL

        monkeypatch.setitem(registry._BUILT_IN, "docker", open_docker)
        monkeypatch.setitem(registry._BUILT_IN, "local", open_local)

    return has


@pytest.mark.parametrize(
    ("docker", "local", "informative", "environment", "expected"),
    [
        (True, True, False, {}, DOCKER),
        (True, True, True, {}, DOCKER),
        (False, True, False, {}, LOCAL),
        (False, True, True, {}, "only --infra-backend=local"),
        (False, True, False, {"DOCKER_HOST": "tcp://x:1"}, "no docker"),
        (False, True, False, {"DOCKER_CONTEXT": "x"}, "no docker"),
        (False, True, False, {"DOCKER_HOST": ""}, LOCAL),
        (False, False, False, {}, "no docker.*no namespaces"),
    ],
)
def test_auto(
    host: Any,
    docker: bool,
    local: bool,
    informative: bool,
    environment: dict[str, str],
    expected: object,
) -> None:
    host(docker=docker, local=local)

    def choose() -> object:
        return registry.open_backend("auto", informative_agent=informative, environment=environment)

    if isinstance(expected, str):
        with pytest.raises(BackendUnavailableError, match=expected):
            choose()
    else:
        assert choose() is expected


@pytest.mark.parametrize("informative", [True, False])
def test_chosen_in_words(host: Any, informative: bool) -> None:
    host(docker=True, local=True)
    assert registry.open_backend("docker", informative_agent=informative) is DOCKER
    assert registry.open_backend("local", informative_agent=informative) is LOCAL
    host(docker=False, local=False)
    for name in ("docker", "local"):
        with pytest.raises(BackendUnavailableError):
            registry.open_backend(name, informative_agent=informative)


def test_unknown_name_is_one_line() -> None:
    with pytest.raises(UsageError, match="'podman' is not one of auto, docker, local"):
        registry.open_backend("podman", informative_agent=False)


def test_a_set_host_that_does_not_answer_is_never_replaced(tmp_path: Path) -> None:
    environment = {"DOCKER_HOST": f"unix://{tmp_path / 'none.sock'}"}
    for name in ("auto", "docker"):
        with pytest.raises(BackendUnavailableError, match=r"DOCKER_HOST \(unix:.*none\.sock\)"):
            registry.open_backend(name, informative_agent=False, environment=environment)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys; import pytest_infranoise.backends.registry; "
        "print([name for name in ('docker', 'requests', 'psutil') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
