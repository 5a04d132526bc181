"""A sandbox of several containers: the one that the agent works in, and helper services."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import NotFound

from pytest_infranoise.backends.base import (
    OUTPUT_TAIL_BYTES,
    EffectiveLimits,
    Placement,
    Seen,
    StepResult,
)
from pytest_infranoise.backends.cgroup import read_counters
from pytest_infranoise.backends.docker.counters import find_on_host
from pytest_infranoise.backends.docker.failures import (
    TRANSPORT_ERRORS,
    engine_calls,
    explain,
    is_gone,
)
from pytest_infranoise.backends.docker.pristine import remove
from pytest_infranoise.backends.docker.sandbox import DockerSandbox
from pytest_infranoise.closing import Closing
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Counters, HelperState
from pytest_infranoise.model.resources import Allocation
from pytest_infranoise.units import format_size

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"

_NETWORK_TRIES = 10
_NETWORK_PAUSE_SECONDS = 0.2
_NO_LIMITS = Allocation(0, None, None, None)

_log = logging.getLogger(__name__)


class Helper:
    """A helper service's container, and how it fared."""

    def __init__(self, client: DockerClient, container_id: str) -> None:
        self.container_id = container_id
        self._client = client
        found = self._inspect()
        self._limit: int | None = found["HostConfig"]["Memory"] or None
        self._paths = find_on_host(int(found["State"]["Pid"]), container_id)
        self._last = HelperState(self._limit)
        # A service that was done before the agent began (a migration, say) was not lost.
        self.was_done = not found["State"]["Running"] and found["State"]["ExitCode"] == 0

    def _inspect(self) -> dict[str, Any]:
        api: Any = self._client.api
        found: dict[str, Any] = api.inspect_container(self.container_id)
        return found

    def state(self) -> HelperState:
        """Return what is known now; a container that cannot be asked about is as it was."""
        try:
            state = self._inspect()["State"]
        except TRANSPORT_ERRORS as error:
            return replace(self._last, lost="is gone") if is_gone(error) else self._last
        reading = Counters()
        if self._paths is not None and state["Running"]:
            reading = read_counters(self._paths, self._limit)
        kills = reading.oom_kills
        if kills is None:
            kills = max(self._last.oom_kills or 0, int(state["OOMKilled"]))
        peak = reading.memory_peak_bytes or self._last.memory_peak_bytes
        exit_code = None if state["Running"] else int(state["ExitCode"])
        self._last = HelperState(self._limit, peak, kills, exit_code, self._lost(kills, exit_code))
        return self._last

    def _lost(self, kills: int, exit_code: int | None) -> str | None:
        if kills:
            limit = format_size(self._limit) if self._limit else "none"
            return f"had a process killed by the kernel (its own limit: {limit})"
        return f"ended with exit code {exit_code}" if exit_code else None


class ComposeSandbox(Closing):
    """The containers of one trial's compose project (`base.Sandbox`).

    Steps, files and counters are those of `main`; helper services stand in the counters by name.
    """

    def __init__(
        self, client: DockerClient, project: str, main: DockerSandbox, helpers: Mapping[str, Helper]
    ) -> None:
        self.project = project
        self._client = client
        self._main = main
        self._helpers = dict(helpers)
        self._closed = False

    def service(self, name: str) -> DockerSandbox:
        """Return a sandbox around the container of a helper service (`base.HasServices`)."""
        helper = self._helpers.get(name)
        if helper is None:
            raise SandboxError(Cause.HARNESS, f"there is no service {name}")
        if helper.state().exit_code is not None:
            raise SandboxError(Cause.HARNESS, f"service {name} has ended")
        return DockerSandbox(self._client, helper.container_id, _NO_LIMITS)

    # --- what the main container does ------------------------------------------------------------

    def exec(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        tail_bytes: int = OUTPUT_TAIL_BYTES,
    ) -> StepResult:
        """Run one command in `main` (`base.Sandbox.exec`)."""
        return self._main.exec(
            command,
            timeout_seconds=timeout_seconds,
            environment=environment,
            workdir=workdir,
            user=user,
            tail_bytes=tail_bytes,
        )

    def put(self, source: Path, target: str) -> None:
        """Copy into `main` (`base.Sandbox.put`)."""
        self._main.put(source, target)

    def place(self, placements: Sequence[Placement]) -> None:
        """Lay files into `main` (`base.Sandbox.place`)."""
        self._main.place(placements)

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """Read a file of `main` (`base.Sandbox.read`)."""
        return self._main.read(path, max_bytes=max_bytes)

    def read_folder(self, path: str, max_bytes: Mapping[str, int]) -> Mapping[str, bytes]:
        """Read files of a folder of `main` (`base.Sandbox.read_folder`)."""
        return self._main.read_folder(path, max_bytes)

    def get(self, source: str, target: Path) -> None:
        """Copy out of `main` (`base.Sandbox.get`)."""
        self._main.get(source, target)

    def kill_all(self) -> None:
        """Kill every process of `main` but its holder; helper services go on."""
        self._main.kill_all()

    def counters(self, *, expect_kill: bool = False) -> Counters:
        """Read the counters of `main`, and how the helper services fare."""
        states = {
            name: helper.state() for name, helper in self._helpers.items() if not helper.was_done
        }
        return replace(self._main.counters(expect_kill=expect_kill), helpers=states)

    def effective_limits(self) -> EffectiveLimits:
        """Return the limits of `main`."""
        return self._main.effective_limits()

    @property
    def workdir(self) -> str:
        """The working folder of `main`."""
        return self._main.workdir

    def program(self, name: str) -> str | None:
        """Return where the image of `main` has a program (`base.Sandbox.program`)."""
        return self._main.program(name)

    def altered(self, paths: Sequence[str]) -> str | None:
        """Return the first path of `main` that differs from its image."""
        return self._main.altered(paths)

    def seen(self) -> Seen:
        """Say what a step in `main` sees of the machine."""
        return self._main.seen()

    def is_alive(self) -> bool:
        """Whether `main` runs."""
        return self._main.is_alive()

    def close(self) -> None:
        """Remove all containers, networks and volumes of the project."""
        if self._closed:
            return
        self._closed = True
        self._main.close()
        try:
            remove_project(self._client, self.project)
        except TRANSPORT_ERRORS as error:
            _log.warning("project %s was not removed: %s", self.project, explain(error))


def containers_of(client: DockerClient, project: str) -> dict[str, str]:
    """Return the containers of a project, running or not: ids by service."""
    api: Any = client.api
    with engine_calls("looking for a project's containers"):
        found = api.containers(all=True, filters={"label": f"{PROJECT_LABEL}={project}"})
    return {item["Labels"][SERVICE_LABEL]: item["Id"] for item in found}


def remove_project(client: DockerClient, project: str) -> None:
    """Remove whatever belongs to a project; what is gone already is fine."""
    label = f"{PROJECT_LABEL}={project}"
    api: Any = client.api
    for item in api.containers(all=True, quiet=True, filters={"label": label}):
        remove(client, item["Id"])
    remove_shared(client, label)


def remove_shared(client: DockerClient, *labels: str) -> None:
    """Remove the networks and volumes that have all of these labels."""
    api: Any = client.api
    for network in api.networks(filters={"label": list(labels)}):
        _without_endpoints(client, network["Id"])
    for volume in api.volumes(filters={"label": list(labels)})["Volumes"] or ():
        with suppress(NotFound):
            api.remove_volume(volume["Name"])


def _without_endpoints(client: DockerClient, network: str) -> None:
    """Remove a network; the engine may take a moment to see that its last container is gone."""
    api: Any = client.api
    for left in reversed(range(_NETWORK_TRIES)):
        try:
            api.remove_network(network)
        except NotFound:
            return
        except TRANSPORT_ERRORS:
            if not left:
                raise
            time.sleep(_NETWORK_PAUSE_SECONDS)
        else:
            return
