"""The images of tasks: pulled, or built once per content."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import ImageNotFound
from docker.utils import parse_repository_tag

from pytest_infranoise.backends.docker.builders import (
    Build,
    BuildFailedError,
    Progress,
    builder_for,
)
from pytest_infranoise.backends.docker.connection import Endpoint
from pytest_infranoise.backends.docker.context import context_digest
from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS, explain, one_line
from pytest_infranoise.backends.docker.locks import exclusive
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import PreparedImage, Task

IMAGE_LABEL = "pytest-infranoise.image"
"""Label of every image that we built; its value is the content digest."""
REPOSITORY = "pytest-infranoise"

_TAIL_CHARACTERS = 600


def check_source(task: Task) -> None:
    """Raise `UsageError` unless the task names an image or a folder with a Dockerfile."""
    context = task.image.build_context
    if context is None:
        if not task.image.docker_image:
            raise UsageError(f"{task.name}: names neither a docker_image nor a Dockerfile")
    elif not (context / "Dockerfile").is_file():
        raise UsageError(f"{task.name}: {context / 'Dockerfile'} does not exist")


class ImageStore:
    """The images of one engine; whoever else prepares the same content meanwhile is waited for."""

    def __init__(self, client: DockerClient, endpoint: Endpoint, engine_id: str) -> None:
        self._client = client
        self._endpoint = endpoint
        self._engine_id = engine_id

    def prepare(self, task: Task, progress: Progress) -> PreparedImage:
        """Return the task's image, made present on the engine if it is not.

        Raises:
            UsageError: it cannot be pulled or built.
        """
        check_source(task)
        try:
            if task.image.build_context is not None:
                return self._built(task, task.image.build_context, progress)
            return self._pulled(task, str(task.image.docker_image), progress)
        except TRANSPORT_ERRORS as error:
            raise UsageError(f"{task.name}: its image cannot be had: {explain(error)}") from error

    def _find(self, reference: str) -> str | None:
        """Return the id of an image that is on the engine."""
        try:
            api: Any = self._client.api
            return str(api.inspect_image(reference)["Id"])
        except ImageNotFound:
            return None

    def _once(
        self, reference: str, make: Callable[[], tuple[str, ...]]
    ) -> tuple[str, tuple[str, ...]]:
        """Return the image's id, made by one process at a time if it is not there."""
        found = self._find(reference)
        if found is not None:
            return found, ()
        key = hashlib.sha256(f"{self._engine_id} {reference}".encode()).hexdigest()[:32]
        with exclusive(f"image-{key}"):
            found = self._find(reference)
            notes = () if found is not None else make()
        found = found or self._find(reference)
        if found is None:
            raise UsageError(f"image {reference} was made, but the engine does not have it")
        return found, notes

    # --- pulling ---------------------------------------------------------------------------------

    def _pulled(self, task: Task, name: str, progress: Progress) -> PreparedImage:
        def pull() -> tuple[str, ...]:
            progress(f"{task.name}: pulling {name}")
            self._pull(task, name, progress)
            return ()

        digest, _ = self._once(name, pull)
        return PreparedImage(name, digest)

    def _pull(self, task: Task, name: str, progress: Progress) -> None:
        repository, tag = parse_repository_tag(name)
        try:
            for event in self._client.api.pull(
                repository, tag=tag or "latest", stream=True, decode=True
            ):
                if "error" in event:
                    raise UsageError(_cannot(task, f"pull {name}", [event["error"]]))
                if "progressDetail" not in event:
                    progress(f"{task.name}: {event.get('status', '')}")
        except TRANSPORT_ERRORS as error:
            raise UsageError(_cannot(task, f"pull {name}", [explain(error)])) from error

    # --- building --------------------------------------------------------------------------------

    def _built(self, task: Task, context: Path, progress: Progress) -> PreparedImage:
        digest = context_digest(context)
        reference = f"{REPOSITORY}/{image_slug(task.name)}:{digest[:20]}"

        def build() -> tuple[str, ...]:
            progress(f"{task.name}: building {reference}")
            builder, notes = builder_for(task.name, context, self._client, self._endpoint)
            order = Build(
                context=context,
                tag=reference,
                labels={IMAGE_LABEL: digest},
                timeout_seconds=task.build_timeout_seconds,
            )
            failure = _run(builder(order), lambda line: progress(f"{task.name}: {line}"))
            if failure is not None:
                raise UsageError(_cannot(task, f"build {context / 'Dockerfile'}", failure))
            return notes

        image_id, notes = self._once(reference, build)
        return PreparedImage(reference, image_id, notes)


def _run(lines: Iterator[str], progress: Progress) -> list[str] | None:
    """Pass a build's output on; return the end of it if the build failed."""
    tail: list[str] = []
    try:
        for line in lines:
            tail = [*tail[-19:], line]
            progress(line)
    except BuildFailedError as error:
        return [*tail, str(error)]
    return None


def _cannot(task: Task, doing: str, tail: Iterable[str]) -> str:
    """One line: the task, what failed, and the end of what the engine said."""
    said = one_line(" | ".join(tail))
    if len(said) > _TAIL_CHARACTERS:
        said = "… " + said[-_TAIL_CHARACTERS:]
    return f"{task.name}: cannot {doing}: {said}"


def image_slug(name: str) -> str:
    """Return a task's name as a component of an image's name."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[-60:].strip("-")
    return words or "task"
