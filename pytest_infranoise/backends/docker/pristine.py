"""What an image itself holds, before any step has run: the engine's word, and its own programs.

An image does not change, so what is learnt of it is kept for as long as the process lives.
"""

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from docker import DockerClient
from docker.utils import decode_json_header

from pytest_infranoise.backends.base import SHELL, SYSTEM_FOLDERS
from pytest_infranoise.backends.docker.copying import spool, temporary_archive
from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS, is_gone

_FOLDER, _LINK = 1 << 31, 1 << 27
_SPECIAL = 0x8F280000
"""Bits of the modes that the engine reports (Go's): all that is no regular file."""

MAX_FOLDER_BYTES = 512 * 1024 * 1024
_HELPER_SECONDS = 60


def stat(client: DockerClient, container: str, path: str) -> dict[str, Any] | None:
    """Return what the engine says of a path in a container, links followed; None for nothing."""
    api: Any = client.api
    url = api._url("/containers/{0}/archive", container)
    response = api.head(url, params={"path": path}, timeout=api.timeout)
    if response.status_code != 200:
        return None
    found: dict[str, Any] = decode_json_header(response.headers["X-Docker-Container-Path-Stat"])
    target = found.get("linkTarget") if found["mode"] & _LINK else None
    if target and target != path:
        return stat(client, container, target)
    return {**found, "path": path}


def is_regular(found: Mapping[str, Any]) -> bool:
    """Whether the engine describes a regular file."""
    return not found["mode"] & _SPECIAL


class PristineImages:
    """The images of one engine as they are (thread-safe)."""

    def __init__(self, client: DockerClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._folders: dict[tuple[str, str], bytes | None] = {}
        self._programs: dict[tuple[str, str], str | None] = {}

    def folder(self, image: str, path: str, labels: Mapping[str, str]) -> bytes | None:
        """Return the folder that an image has at a path, as an archive; None for no folder."""
        with self._lock:
            if (image, path) not in self._folders:
                with self._container(image, labels) as container:
                    self._folders[image, path] = self._content(container, path)
            return self._folders[image, path]

    def _content(self, container: str, path: str) -> bytes | None:
        found = stat(self._client, container, path)
        if found is None or not found["mode"] & _FOLDER:
            return None
        api: Any = self._client.api
        chunks, _ = api.get_archive(container, found["path"])
        with temporary_archive() as archive:
            spool(chunks, archive, MAX_FOLDER_BYTES)
            return archive.read()

    def program(self, image: str, name: str, labels: Mapping[str, str]) -> str | None:
        """Return where an image has a program in its system folders."""
        with self._lock:
            if (image, name) not in self._programs:
                with self._container(image, labels) as container:
                    self._programs[image, name] = self._find(container, name)
            return self._programs[image, name]

    def _find(self, container: str, name: str) -> str | None:
        for folder in reversed(SYSTEM_FOLDERS):  # most are in the last ones
            found = stat(self._client, container, f"{folder}/{name}")
            if found is not None and is_regular(found):
                return f"{folder}/{name}"
        return None

    def names_of(self, image: str, path: str, labels: Mapping[str, str]) -> set[str]:
        """Return every name that a path of an image has: its own, and where links lead."""
        names = {path}
        folder, _, name = path.rpartition("/")
        with self._container(image, labels) as container:
            for found, end in (
                (stat(self._client, container, folder or "/"), f"/{name}"),
                (stat(self._client, container, path), ""),
            ):
                if found is not None:
                    names.add(f"{found['path'].rstrip('/')}{end}")
        return names

    def run(self, image: str, script: str, labels: Mapping[str, str], **host: Any) -> bool:
        """Run a script of ours in a container of its own, with the image's own shell.

        `host` says what it shares with a sandbox: nothing that a step has done to that sandbox's
        programs matters here. Returns whether it ended with 0.
        """
        api: Any = self._client.api
        with self._container(image, labels, [SHELL, "-c", script], **host) as container:
            api.start(container)
            return bool(api.wait(container, timeout=_HELPER_SECONDS)["StatusCode"] == 0)

    @contextmanager
    def _container(
        self, image: str, labels: Mapping[str, str], entrypoint: Sequence[str] = (), **host: Any
    ) -> Iterator[str]:
        api: Any = self._client.api
        config = api.create_container_config(
            image,
            command=[] if entrypoint else ["none"],
            entrypoint=list(entrypoint) or None,
            user="0",
            working_dir="/",
            labels=dict(labels),
            healthcheck={"test": ["NONE"]},
            host_config=api.create_host_config(
                network_mode="none", log_config={"type": "none"}, **host
            ),
        )
        container = api.create_container_from_config(
            config, f"infranoise-look-{secrets.token_hex(4)}"
        )["Id"]
        try:
            yield container
        finally:
            with suppress(*TRANSPORT_ERRORS):
                remove(self._client, container)


def remove(client: DockerClient, container_id: str) -> None:
    """Remove a container with its volumes; one that is gone or going already is fine."""
    try:
        client.api.remove_container(container_id, force=True, v=True)
    except TRANSPORT_ERRORS as error:
        if not is_gone(error):
            raise
