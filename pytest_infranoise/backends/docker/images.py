"""The images of tasks: pulled, or built once per content."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from pytest_infranoise.backends.docker.installing import BASE_LABEL, InstallFailedError, install
from pytest_infranoise.backends.docker.locks import exclusive
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.install import AgentInstall
from pytest_infranoise.model.task import PreparedImage, Task

IMAGE_LABEL = "pytest-infranoise.image"
"""Label of every image that we built; its value is the content digest."""
REPOSITORY = "pytest-infranoise"

_TAIL_CHARACTERS = 600


def check_source(task: Task) -> None:
    """Raise `UsageError` unless the task names an image or a folder with a Dockerfile."""
    context = task.image.build_context
    if task.image.docker_image:
        return
    if context is None and task.directory is None:
        raise UsageError(
            f"{task.name}: names neither an image nor a Dockerfile; write "
            'image="python:3.11-slim" in its infra marker, or name a default with the ini option '
            "infra_default_image"
        )
    if context is None:
        raise UsageError(f"{task.name}: names neither a docker_image nor a Dockerfile")
    if not (context / "Dockerfile").is_file():
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
            name, context = task.image.docker_image, task.image.build_context
            if context is None:
                assert name is not None  # check_source() came first
                return self._pulled(task, name, progress)
            if not name or task.image.build == "always":
                return self._built(task, context, progress)
            return self._pulled_or_built(task, name, context, progress)
        except TRANSPORT_ERRORS as error:
            raise UsageError(f"{task.name}: its image cannot be had: {explain(error)}") from error

    def _find(self, reference: str) -> str | None:
        """Return the id of an image that is on the engine."""
        try:
            return str(self._inspect(reference)["Id"])
        except ImageNotFound:
            return None

    def _inspect(self, reference: str) -> dict[str, Any]:
        api: Any = self._client.api
        found: dict[str, Any] = api.inspect_image(reference)
        return found

    def _prepared(self, reference: str, notes: tuple[str, ...] = ()) -> PreparedImage:
        """Describe an image that is on the engine now."""
        found = self._inspect(reference)
        config = found["Config"]
        return PreparedImage(
            reference,
            found["Id"],
            notes,
            config.get("User") or None,
            entrypoint=tuple(config.get("Entrypoint") or ()),
        )

    def _once(self, reference: str, make: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Make an image that is not there, one process at a time; return what `make` notes."""
        if self._find(reference) is not None:
            return ()
        key = hashlib.sha256(f"{self._engine_id} {reference}".encode()).hexdigest()[:32]
        with exclusive(f"image-{key}"):
            notes = () if self._find(reference) is not None else make()
        if self._find(reference) is None:
            raise UsageError(f"image {reference} was made, but the engine does not have it")
        return notes

    # --- installing an agent ---------------------------------------------------------------------

    def installed(
        self,
        task: Task,
        image: PreparedImage,
        step: AgentInstall,
        progress: Progress,
        *,
        holder: Sequence[str],
        container_labels: Mapping[str, str],
    ) -> PreparedImage:
        """Return an image with an agent installed, made by `installing.install` if need be.

        Raises:
            UsageError: the step fails, or the engine does.
        """
        base = image.digest or image.reference
        digest = hashlib.sha256(f"{base} {step.digest}".encode()).hexdigest()
        reference = f"{REPOSITORY}/agent:{digest[:20]}"

        def make() -> tuple[str, ...]:
            progress(f"{task.name}: installing the agent into {image.reference}")
            install(
                self._client,
                base,
                step,
                tag=reference,
                holder=list(holder),
                labels={IMAGE_LABEL: digest, BASE_LABEL: base},
                container_labels=container_labels,
                timeout_seconds=task.build_timeout_seconds,
            )
            return ()

        doing = f"install the agent into {image.reference}"
        try:
            self._once(reference, make)
            made = self._prepared(reference, image.notes)
        except InstallFailedError as error:
            tail = [*error.tail[-10:], str(error)]
            raise UsageError(_cannot(task, doing, tail)) from error
        except SandboxError as error:
            raise UsageError(_cannot(task, doing, [str(error)])) from error
        except TRANSPORT_ERRORS as error:
            raise UsageError(_cannot(task, doing, [explain(error)])) from error
        return replace(made, user=image.user, base_digest=image.digest)

    def made(
        self, task: Task, reference: str, make: Callable[[], tuple[str, ...]]
    ) -> PreparedImage:
        """Return an image that `make` makes if it is not there, one process at a time.

        Raises:
            UsageError: it cannot be had.
        """
        try:
            return self._prepared(reference, self._once(reference, make))
        except TRANSPORT_ERRORS as error:
            raise UsageError(f"{task.name}: its image cannot be had: {explain(error)}") from error

    def _pulled_or_built(
        self, task: Task, name: str, context: Path, progress: Progress
    ) -> PreparedImage:
        """Return the named image, which is the one that the task's author published."""
        try:
            return self._pulled(task, name, progress)
        except UsageError as error:
            if task.image.build == "never":
                raise UsageError(
                    f"{error}; --infra-build=missing builds its Dockerfile instead"
                ) from error
        built = self._built(task, context, progress)
        note = f"built from its Dockerfile: {name} could not be pulled"
        return replace(built, notes=(*built.notes, note))

    # --- pulling ---------------------------------------------------------------------------------

    def _pulled(self, task: Task, name: str, progress: Progress) -> PreparedImage:
        def pull() -> tuple[str, ...]:
            progress(f"{task.name}: pulling {name}")
            self._pull(task, name)
            return ()

        self._once(name, pull)
        return self._prepared(name)

    def _pull(self, task: Task, name: str) -> None:
        repository, tag = parse_repository_tag(name)
        try:
            for event in self._client.api.pull(
                repository, tag=tag or "latest", stream=True, decode=True
            ):
                if "error" in event:
                    raise UsageError(_cannot(task, f"pull {name}", [event["error"]]))
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
            failure = _run(builder(order))
            if failure is not None:
                raise UsageError(_cannot(task, f"build {context / 'Dockerfile'}", failure))
            return notes

        return self._prepared(reference, self._once(reference, build))


def _run(lines: Iterator[str]) -> list[str] | None:
    """Follow a build to its end; return the end of its output if it failed."""
    tail: list[str] = []
    try:
        for line in lines:
            tail = [*tail[-19:], line]
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
