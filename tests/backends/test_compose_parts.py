"""Compose projects without an engine: waiting for addresses, health, and helpers that end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound
from sandboxes import allocation, make_task

from pytest_infranoise.backends.base import SandboxRequest
from pytest_infranoise.backends.docker import compose, compose_sandbox
from pytest_infranoise.backends.docker.compose import ComposeProjects, project_name
from pytest_infranoise.backends.docker.compose_command import ComposeError, find_compose
from pytest_infranoise.backends.docker.compose_sandbox import Helper, remove_shared
from pytest_infranoise.backends.docker.connection import Endpoint
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.task import ComposeSource, HelperService, PreparedImage

NO_ADDRESSES = "could not find an available, non-overlapping IPv4 address pool among the defaults"
ENDPOINT = Endpoint("unix:///nowhere", "test")
SOURCE = ComposeSource(Path("x"), "x", helpers=(HelperService("db", 1, 1),))


def request() -> SandboxRequest:
    return SandboxRequest(
        study="s",
        trial="A Task::1x-s1",
        owner="o",
        task=make_task(),
        image=PreparedImage("i"),
        allocation=allocation(),
    )


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(compose.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(compose.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Api:
    """An engine that answers with what it is given."""

    def __init__(self, *states: Any) -> None:
        self.states: Iterator[Any] = iter(states)
        self.removed: list[str] = []

    def inspect_container(self, identifier: str) -> Any:
        state = next(self.states)
        if isinstance(state, Exception):
            raise state
        return {"State": state, "HostConfig": {"Memory": 64 * 1024**2}}

    def containers(self, **_: Any) -> list[Any]:
        return []

    def networks(self, **_: Any) -> list[Any]:
        return [{"Id": "n"}]

    def volumes(self, **_: Any) -> Any:
        return {"Volumes": [{"Name": "v"}, {"Name": "gone"}]}

    def remove_network(self, identifier: str) -> None:
        self.removed.append(identifier)

    def remove_volume(self, identifier: str) -> None:
        if identifier == "gone":
            raise NotFound("no such volume")
        self.removed.append(identifier)


class Client:
    def __init__(self, *states: Any) -> None:
        self.api = Api(*states)


class FakeCompose:
    """Fails to start with each of the given messages in turn, then starts."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)

    def up(self, project: str, file: Path, timeout_seconds: float) -> None:
        if self.failures:
            raise ComposeError(self.failures.pop(0))


def projects(fake: FakeCompose | None = None, *states: Any) -> Any:
    made = ComposeProjects(Client(*states), ENDPOINT, None)  # type: ignore[arg-type]
    made.__dict__["_compose"] = fake
    return made


def test_a_trial_waits_until_others_give_addresses_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    fake = FakeCompose(NO_ADDRESSES, f"ERROR: {NO_ADDRESSES} to assign")
    made = projects(fake)
    made._up("p", Path("f"), request(), 600.0)
    assert clock.now == 4.0
    assert made._client.api.removed == ["n", "v"] * 2  # what had been made already


def test_addresses_that_never_come_are_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    fake = FakeCompose(*["all predefined address pools have been fully subnetted"] * 1000)
    with pytest.raises(SandboxError, match="default-address-pools") as caught:
        projects(fake)._up("p", Path("f"), request(), 600.0)
    assert caught.value.cause == "engine"
    assert clock.now == compose.NETWORK_WAIT_SECONDS


def test_any_other_failure_to_start_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(SandboxError, match="no such image") as caught:
        projects(FakeCompose("no such image"))._up("p", Path("f"), request(), 600.0)
    assert (caught.value.cause, clock.now) == ("sandbox_start", 0.0)


def state(health: str | None = None, exit_code: int | None = None, **more: Any) -> dict[str, Any]:
    running = exit_code is None
    found: dict[str, Any] = {"Running": running, "ExitCode": exit_code or 0, "OOMKilled": False}
    found |= {"Pid": 0} | more
    return found if health is None else {**found, "Health": {"Status": health}}


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ([state()], None),
        ([state("starting"), state("starting"), state("healthy")], None),
        ([state(exit_code=0)], None),
        ([state("starting"), state("unhealthy")], "is unhealthy"),
        ([state("starting"), state(exit_code=3)], "ended with exit code 3"),
        ([state("starting")] * 60, "was not healthy in time"),
    ],
)
def test_health_of_a_helper(
    monkeypatch: pytest.MonkeyPatch, states: list[Any], problem: str | None
) -> None:
    Clock(monkeypatch)
    made = projects(None, *states)
    if problem is None:
        made._await_health({"db": "id"}, SOURCE, request(), 10.0)
        return
    with pytest.raises(SandboxError, match=f"service db {problem}") as caught:
        made._await_health({"db": "id"}, SOURCE, request(), 10.0)
    assert caught.value.cause == "sandbox_start"


@pytest.mark.parametrize(
    ("later", "kills", "exit_code", "lost"),
    [
        (state(), 0, None, None),
        (state(exit_code=0), 0, 0, None),
        (state(exit_code=1), 0, 1, "ended with exit code 1"),
        (
            state(exit_code=137, OOMKilled=True),
            1,
            137,
            "had a process killed by the kernel (its own limit: 64 MiB)",
        ),
        (NotFound("gone"), None, None, "is gone"),
    ],
)
def test_what_became_of_a_helper(
    monkeypatch: pytest.MonkeyPatch,
    later: Any,
    kills: int | None,
    exit_code: int | None,
    lost: str | None,
) -> None:
    monkeypatch.setattr(compose_sandbox, "find_on_host", lambda pid, identifier: None)
    helper = Helper(Client(state(), later), "id")  # type: ignore[arg-type]
    found = helper.state()
    assert (found.oom_kills, found.exit_code, found.lost) == (kills, exit_code, lost)
    assert not helper.was_done


@pytest.mark.parametrize(("exit_code", "was_done"), [(0, True), (1, False), (None, False)])
def test_a_helper_that_was_done_before_the_agent_began(
    exit_code: int | None, was_done: bool
) -> None:
    assert Helper(Client(state(exit_code=exit_code)), "id").was_done is was_done  # type: ignore[arg-type]


def test_what_is_gone_already_is_removed() -> None:
    client: Any = Client()
    remove_shared(client, "a=b")
    assert client.api.removed == ["n", "v"]


def test_names_of_projects() -> None:
    first, second = project_name(request()), project_name(request())
    assert first != second
    assert first.startswith("infranoise-a-task-1x-s1-")


def test_without_any_compose_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="`docker compose` nor `docker-compose` works here"):
        find_compose(ENDPOINT)


def test_the_plugin_goes_before_the_older_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, text in (("docker-compose", "echo 1.29.2"), ("docker", "echo 2.30.0")):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    found = find_compose(ENDPOINT)
    assert (found.command, found.version) == (("docker", "compose"), "2.30.0")
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    assert find_compose(ENDPOINT).command == ("docker-compose",)


def test_a_command_of_compose_is_ended_at_its_deadline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path = tmp_path / "docker-compose"
    path.write_text('#!/bin/sh\n[ "$1" = version ] && echo 1 && exit\necho oops >&2; exit 3\n')
    path.chmod(0o755)
    (tmp_path / "docker").symlink_to("/bin/false")
    found = find_compose(ENDPOINT)
    with pytest.raises(ComposeError, match=r"^oops$"):
        found.up("p", tmp_path, 10)
    path.write_text("#!/bin/sh\nsleep 100 & wait\n")
    with pytest.raises(ComposeError, match=r"no end within 0\.2 s"):
        found.up("p", tmp_path, 0.2)
