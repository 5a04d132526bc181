"""A Docker Engine that is away, dead or hung: every question to it has a bound and an answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_door import EngineDoor
from required import missing_engine
from sandboxes import BUSYBOX, allocation, request_for

from pytest_infranoise.backends.docker import backend as module
from pytest_infranoise.backends.docker.backend import DockerBackend
from pytest_infranoise.backends.docker.connection import CALL_SECONDS
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Classification
from pytest_infranoise.trial.outage import judge_outage, name_outage


@pytest.fixture
def door(tmp_path: Path, docker_backend: Any, docker_image: Any) -> Iterator[EngineDoor]:
    docker_image(BUSYBOX)
    host = docker_backend.endpoint.host
    if not host.startswith("unix://"):
        missing_engine("docker", "it does not listen on a socket of this host")
    door = EngineDoor(host, tmp_path / "door.sock")
    yield door
    door.close()


@pytest.fixture
def behind(door: EngineDoor, monkeypatch: Any) -> Iterator[DockerBackend]:
    monkeypatch.setattr(module, "OUTAGE_SECONDS", 1)
    backend = DockerBackend({"DOCKER_HOST": door.address})
    yield backend
    door.open()
    backend.close()


@pytest.mark.parametrize("way", ["shut", "hang"])
def test_an_engine_that_is_away_is_found_to_be(
    behind: DockerBackend, door: EngineDoor, study: str, way: str
) -> None:
    assert behind.outage() is None
    sandbox = behind.open(request_for(behind, study, allocation()))
    getattr(door, way)()
    outage = behind.outage()
    assert outage is not None
    assert f"DOCKER_HOST ({door.address}) does not answer: " in outage
    with pytest.raises(SandboxError) as lost:
        sandbox.exec(["true"], timeout_seconds=1)
    assert lost.value.cause == Cause.ENGINE
    assert name_outage(lost.value, behind).cause == Cause.ENGINE_AWAY
    with pytest.raises(SandboxError, match="sweeping"):
        behind.sweep(study)
    sandbox.close()
    door.open()
    assert behind.outage() is None
    assert behind.client.api.timeout == CALL_SECONDS
    assert behind.sweep(study) == 1


class Answering:
    def __init__(self, outage: str | None) -> None:
        self._outage = outage

    def outage(self) -> str | None:
        return self._outage


@pytest.mark.parametrize(
    ("cause", "outage", "expected"),
    [
        (Cause.ENGINE, "away", Cause.ENGINE_AWAY),
        (Cause.SANDBOX_LOST, "away", Cause.ENGINE_AWAY),
        (Cause.SANDBOX_START, "away", Cause.ENGINE_AWAY),
        (Cause.ENGINE, None, Cause.ENGINE),
        (Cause.SANDBOX_LOST, None, Cause.SANDBOX_LOST),
        (Cause.HOST_MEMORY, "away", Cause.HOST_MEMORY),
        (Cause.WORKER_LOST, "away", Cause.WORKER_LOST),
    ],
)
def test_only_what_the_engine_shows_makes_a_failure_its_absence(
    cause: Cause, outage: str | None, expected: Cause
) -> None:
    backend: Any = Answering(outage)
    found = judge_outage(Classification.infra(cause, "why"), backend)
    assert found.cause is expected
    assert found.detail == ("away; why" if expected is Cause.ENGINE_AWAY else "why")
