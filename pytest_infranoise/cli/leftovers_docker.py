"""What dead runs left on a Docker Engine."""

from collections.abc import Callable
from typing import Any

from docker import DockerClient

from pytest_infranoise.backends.base import LABEL, OWNER_LABEL
from pytest_infranoise.backends.docker.images import IMAGE_LABEL
from pytest_infranoise.backends.docker.sandbox import remove
from pytest_infranoise.cli.leftovers import Found, Life, life_of_owner


def containers(client: DockerClient) -> list[Found]:
    """Return every container of ours, living or not."""
    api: Any = client.api
    found = []
    for item in api.containers(all=True, filters={"label": LABEL}):
        labels = item["Labels"]
        life, reason = life_of_owner(labels.get(OWNER_LABEL, ""), item["Created"])
        name = (item.get("Names") or [item["Id"][:12]])[0].lstrip("/")
        found.append(
            Found("container", name, labels[LABEL], life, reason, _container(client, item["Id"]))
        )
    return found


def images(client: DockerClient, is_busy: bool) -> list[Found]:
    """Return every image that we built; all are wanted where a run `is_busy`."""
    api: Any = client.api
    life = Life.UNKNOWN if is_busy else Life.DEAD
    reason = "a run may be using it" if is_busy else "it can be built again"
    found = []
    for item in api.images(filters={"label": IMAGE_LABEL}):
        tags = [tag for tag in item.get("RepoTags") or () if tag != "<none>:<none>"]
        for name in tags or [item["Id"]]:
            found.append(Found("image", name, None, life, reason, _image(client, name)))
    return found


def _container(client: DockerClient, identifier: str) -> Callable[[], None]:
    return lambda: remove(client, identifier)


def _image(client: DockerClient, name: str) -> Callable[[], None]:
    api: Any = client.api
    return lambda: api.remove_image(name)
