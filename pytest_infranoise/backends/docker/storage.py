"""Whether an engine can limit a container's disk space: asked of the engine, not guessed."""

import io
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from docker import DockerClient
from docker.errors import APIError

from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS, one_line
from pytest_infranoise.units import GIB

OPTION = "size"
"""The engine's own name for a limit of a container's writable layer."""

_PROBE_BYTES = 20 * GIB
"""More than any base size that a driver may insist on."""
_SNAPSHOTTER = "io.containerd.snapshotter.v1"


def storage_problem(client: DockerClient, facts: Mapping[str, Any]) -> str | None:
    """Return why the engine cannot limit disk space, in its own words; None where it can.

    A container with a limit is created (and never started) to find out. An engine on containerd's
    snapshotters accepts the option and does nothing.
    """
    for key, value in facts.get("DriverStatus") or ():
        if key == "driver-type" and value == _SNAPSHOTTER:
            return "containerd's snapshotters have no limits"
    try:
        with _any_image(client) as image:
            _create(client, image)
    except APIError as error:
        return one_line(str(error.explanation or error))
    return None


def _create(client: DockerClient, image: str) -> None:
    api: Any = client.api
    host = api.create_host_config(storage_opt=storage_option(_PROBE_BYTES), network_mode="none")
    made = api.create_container(image, command=["true"], host_config=host)
    api.remove_container(made["Id"], force=True, v=True)


def storage_option(size_bytes: int) -> dict[str, str]:
    """Return a limit as the engine's option."""
    return {OPTION: str(size_bytes)}


@contextmanager
def _any_image(client: DockerClient) -> Iterator[str]:
    """Yield an image that is there; where there is none, an empty one that goes again."""
    api: Any = client.api
    found = api.images(quiet=True)
    if found:
        yield found[0]
        return
    with io.BytesIO() as archive:
        with tarfile.open(fileobj=archive, mode="w"):
            pass
        api.import_image_from_data(archive.getvalue(), repository="pytest-infranoise/empty")
    try:
        yield "pytest-infranoise/empty"
    finally:
        with suppress(*TRANSPORT_ERRORS):
            api.remove_image("pytest-infranoise/empty")
