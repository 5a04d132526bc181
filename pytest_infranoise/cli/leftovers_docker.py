"""What dead runs left on a Docker Engine."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from docker import DockerClient

from pytest_infranoise.backends.base import LABEL, OWNER_LABEL
from pytest_infranoise.backends.docker.images import IMAGE_LABEL
from pytest_infranoise.backends.docker.pristine import remove
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


def shared(client: DockerClient) -> list[Found]:
    """Return every network and volume of ours: those of tasks of several containers."""
    api: Any = client.api
    found = []
    networks = api.networks(filters={"label": LABEL})
    for item in networks:
        found.append(_shared("network", item, item["Id"], api.remove_network))
    for item in api.volumes(filters={"label": LABEL})["Volumes"] or ():
        found.append(_shared("volume", item, item["Name"], api.remove_volume))
    return found


def _shared(
    kind: str, item: dict[str, Any], identifier: str, remove_one: Callable[[str], None]
) -> Found:
    labels = item["Labels"]
    made = item.get("Created") or item["CreatedAt"]
    life, reason = life_of_owner(labels.get(OWNER_LABEL, ""), _seconds(made))
    return Found(kind, item["Name"], labels[LABEL], life, reason, lambda: remove_one(identifier))


def _seconds(text: str) -> float:
    """Return a time of the engine as seconds; it has more digits than Python reads."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if match is None:
        raise ValueError(f"not a time: {text!r}")
    return datetime.fromisoformat(match[1] + match[2].replace("Z", "+00:00")).timestamp()


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
