"""Tasks of several containers: a project per trial, through the Compose that is installed."""

import hashlib
import json
import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from docker import DockerClient

from pytest_infranoise.backends.base import SandboxRequest
from pytest_infranoise.backends.docker.compose_command import Compose, ComposeError, find_compose
from pytest_infranoise.backends.docker.compose_host import check_model
from pytest_infranoise.backends.docker.compose_model import (
    OUR_IMAGE,
    TrialSettings,
    ignored,
    trial_file,
)
from pytest_infranoise.backends.docker.compose_sandbox import (
    ComposeSandbox,
    Helper,
    containers_of,
    remove_project,
)
from pytest_infranoise.backends.docker.connection import Endpoint
from pytest_infranoise.backends.docker.context import context_digest
from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS, engine_calls
from pytest_infranoise.backends.docker.images import (
    IMAGE_LABEL,
    REPOSITORY,
    ImageStore,
    image_slug,
)
from pytest_infranoise.backends.docker.pristine import PristineImages
from pytest_infranoise.backends.docker.sandbox import DockerSandbox
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.resources import Capacity
from pytest_infranoise.model.task import ComposeSource, ImageSource, PreparedImage, Task

NETWORK_WAIT_SECONDS = 120.0
"""How long a trial waits for others to give a network's addresses back."""
_NETWORK_PAUSE_SECONDS = 2.0
_NO_ADDRESSES = re.compile(
    "could not find an available, non-overlapping IPv4 address pool"
    "|all predefined address pools have been fully subnetted",
    re.IGNORECASE,
)
_HEALTH_PAUSE_SECONDS = 0.2

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Project:
    """A task's compose file as Compose understands it, and its images by service."""

    source: ComposeSource
    model: Mapping[str, Any]
    images: Mapping[str, PreparedImage]


class ComposeProjects:
    """The compose projects of one engine."""

    def __init__(self, client: DockerClient, endpoint: Endpoint, images: ImageStore) -> None:
        self._client = client
        self._endpoint = endpoint
        self._images = images
        self._known: dict[str, _Project] = {}

    @cached_property
    def _compose(self) -> Compose:
        return find_compose(self._endpoint)

    # --- before any trial ------------------------------------------------------------------------

    def check(self, task: Task) -> list[str]:
        """Return warnings about what has no effect in a task's compose file.

        Raises:
            UsageError: there is no Compose, or it or we cannot run the file.
        """
        assert task.compose is not None
        model = self._model(task.compose)
        check_model(model, task.compose)
        return list(dict.fromkeys(ignored(model, task.compose)))

    def prepare(self, task: Task, progress: Progress) -> PreparedImage:
        """Return the main service's image; those of all services are on the engine then.

        Raises:
            UsageError: one cannot be pulled or built.
        """
        project = self._project(task, progress)
        main = project.images[project.source.main]
        others = tuple(
            f"service {name}: image {image.digest}"
            for name, image in sorted(project.images.items())
            if name != project.source.main
        )
        service = project.model["services"].get(project.source.main) or {}
        user = str(service["user"]) if service.get("user") else main.user
        entrypoint = main.entrypoint
        if (own := service.get("entrypoint")) is not None:
            entrypoint = tuple(shlex.split(own) if isinstance(own, str) else own)
        return replace(main, notes=(*main.notes, *others), user=user, entrypoint=entrypoint)

    def _model(self, source: ComposeSource) -> Mapping[str, Any]:
        variables = {**source.variables, "MAIN_IMAGE_NAME": OUR_IMAGE}
        try:
            return self._compose.config(source.file, variables)
        except ComposeError as error:
            raise UsageError(f"{source.place}: {error}") from None

    def _project(self, task: Task, progress: Progress) -> _Project:
        known = self._known.get(task.name)
        if known is not None:
            return known
        assert task.compose is not None
        model = self._model(task.compose)
        services = model["services"]
        images = {
            name: self._image(task, name, services.get(name) or {}, progress)
            for name in (task.compose.main, *(item.name for item in task.compose.helpers))
        }
        project = self._known[task.name] = _Project(task.compose, model, images)
        return project

    def _image(
        self, task: Task, name: str, service: Mapping[str, Any], progress: Progress
    ) -> PreparedImage:
        assert task.compose is not None
        image, build = service.get("image"), _build(service)
        is_main = name == task.compose.main
        own = replace(task, compose=None, name=task.name if is_main else f"{task.name}-{name}")
        plain = _plain_context(build)
        is_plain_own = plain is not None and plain == task.image.build_context
        says_nothing = build is None and (image == OUR_IMAGE or (is_main and not image))
        if is_plain_own or says_nothing:
            return self._images.prepare(replace(own, name=task.name), progress)
        if plain is not None and build is not None:
            return self._images.prepare(replace(own, image=ImageSource(None, plain)), progress)
        if build is not None:
            return self._built(own, name, build, progress)
        if not image:
            raise UsageError(f"{task.compose.place}: services.{name}: neither image nor build")
        return self._images.prepare(replace(own, image=ImageSource(image)), progress)

    def _built(
        self, task: Task, service: str, build: Mapping[str, Any], progress: Progress
    ) -> PreparedImage:
        """Build with Compose what has arguments, a target or another Dockerfile."""
        content = context_digest(Path(build["context"])) + json.dumps(build, sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()
        reference = f"{REPOSITORY}/{image_slug(task.name)}:{digest[:20]}"
        labels = {**dict(build.get("labels") or {}), IMAGE_LABEL: digest}
        document = {"image": reference, "build": {**build, "labels": labels}}

        def make() -> tuple[str, ...]:
            progress(f"{task.name}: building {reference}")
            try:
                with _written({"version": "3.9", "services": {service: document}}) as file:
                    self._compose.build(file, service, task.build_timeout_seconds)
            except ComposeError as error:
                raise UsageError(f"{task.name}: cannot build {build['context']}: {error}") from None
            return ()

        return self._images.made(task, reference, make)

    # --- a trial ---------------------------------------------------------------------------------

    def open(
        self,
        request: SandboxRequest,
        main: Mapping[str, Any],
        labels: Mapping[str, str],
        *,
        cgroup_parent: str | None,
        counters_on_host: bool,
        images: PristineImages,
        capacity: Capacity,
    ) -> ComposeSandbox:
        """Start a project; `main` are our settings of its main service, `labels` for all.

        Raises:
            SandboxError: it did not start, or a service did not become healthy in time.
        """
        task = request.task
        project = self._project_of(task)
        name = project_name(request)
        references = {service: image.reference for service, image in project.images.items()}
        settings = TrialSettings(
            images={**references, project.source.main: request.image.reference},
            labels=labels,
            main=main,
            environment=request.environment,
            has_network=task.network,
            cgroup_parent=cgroup_parent,
        )
        until = time.monotonic() + task.build_timeout_seconds
        try:
            with _written(trial_file(project.model, project.source, settings)) as file:
                self._up(name, file, request, until)
            ids = containers_of(self._client, name)
            self._await_health(ids, project.source, request, until)
            with engine_calls(f"opening {request.trial}"):
                helpers = {
                    service: Helper(self._client, identifier)
                    for service, identifier in ids.items()
                    if service != project.source.main
                }
            sandbox = DockerSandbox(
                self._client,
                ids[project.source.main],
                request.allocation,
                counters_on_host=counters_on_host,
                images=images,
                capacity=capacity,
            )
            if request.placements:
                sandbox.place(request.placements)
            return ComposeSandbox(self._client, name, sandbox, helpers)
        except BaseException:
            with suppress(*TRANSPORT_ERRORS):
                remove_project(self._client, name)
            raise

    def _project_of(self, task: Task) -> _Project:
        try:
            return self._project(task, lambda line: None)
        except UsageError as error:
            raise SandboxError(Cause.IMAGE, f"docker: {error}") from error

    def _up(self, project: str, file: Path, request: SandboxRequest, until: float) -> None:
        """Start a project; where no network's addresses are left, wait for others to end."""
        given_up_at = time.monotonic() + NETWORK_WAIT_SECONDS
        while True:
            try:
                self._compose.up(project, file, max(1.0, until - time.monotonic()))
                return
            except ComposeError as error:
                if not _NO_ADDRESSES.search(str(error)):
                    raise SandboxError(
                        Cause.SANDBOX_START, f"docker compose, opening {request.trial}: {error}"
                    ) from None
            if time.monotonic() >= given_up_at:
                raise SandboxError(
                    Cause.ENGINE,
                    f"docker compose, opening {request.trial}: no addresses are left for a network "
                    "(about 30 by default): run fewer trials at once, remove unused networks, or "
                    "give the engine more default-address-pools",
                )
            remove_project(self._client, project)
            time.sleep(_NETWORK_PAUSE_SECONDS)

    def _await_health(
        self, ids: Mapping[str, str], source: ComposeSource, request: SandboxRequest, until: float
    ) -> None:
        """Wait until each helper service that has a healthcheck is healthy."""
        api: Any = self._client.api
        for helper in source.helpers:
            while True:
                with engine_calls(f"opening {request.trial}"):
                    state = api.inspect_container(ids[helper.name])["State"]
                health = (state.get("Health") or {}).get("Status", "none")
                problem = None
                if not state["Running"] and state["ExitCode"] != 0:
                    problem = f"ended with exit code {state['ExitCode']}"
                elif health == "unhealthy":
                    problem = "is unhealthy"
                elif health != "starting":
                    break
                elif time.monotonic() >= until:
                    problem = "was not healthy in time"
                if problem is not None:
                    message = f"docker, opening {request.trial}: service {helper.name} {problem}"
                    raise SandboxError(Cause.SANDBOX_START, message)
                time.sleep(_HEALTH_PAUSE_SECONDS)


def _build(service: Mapping[str, Any]) -> Mapping[str, Any] | None:
    build = service.get("build")
    return {"context": build} if isinstance(build, str) else build


def _plain_context(build: Mapping[str, Any] | None) -> Path | None:
    """Return the folder of a build that is nothing but a folder with a Dockerfile."""
    if build is None or set(build) - {"context", "dockerfile"}:
        return None
    return Path(build["context"]) if build.get("dockerfile", "Dockerfile") == "Dockerfile" else None


@contextmanager
def _written(document: Mapping[str, Any]) -> Iterator[Path]:
    """Write a compose file where nobody else can read it, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="infranoise-") as folder:
        file = Path(folder) / "compose.yaml"
        file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
        yield file


def project_name(request: SandboxRequest) -> str:
    """Return a project's name: whose it is, and free whatever was left behind."""
    words = re.sub(r"[^a-z0-9]+", "-", request.trial.lower()).strip("-")[-60:].strip("-")
    return f"infranoise-{words}-{secrets.token_hex(4)}"
