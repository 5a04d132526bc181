"""The service `client` of a Terminal-Bench 1 task's `docker-compose.yaml`.

A client that says nothing a single container could not have is one; everything else, further
services first of all, is left to the Compose that is installed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import LOGS_SOURCE, ImageSource
from pytest_infranoise.tasks.compose import COMPOSE_FILE, ComposeReading, filled, read_compose
from pytest_infranoise.tasks.place import display_path
from pytest_infranoise.tasks.yaml_file import load_yaml, mapping_of, shown, text_of

SERVICE = "client"

_LOGS = {
    "T_BENCH_TASK_LOGS_PATH": f"{LOGS_SOURCE}/sessions",
    "T_BENCH_TASK_AGENT_LOGS_PATH": f"{LOGS_SOURCE}/agent-logs",
}
"""Host folders that the format's own harness takes logs out of."""
_TAKEN = frozenset({"build", "image", "environment", "working_dir", "user", "volumes"})
_SILENT = frozenset({"command", "container_name", "stdin_open", "tty", "init", "hostname"})
_WARNED = frozenset({
    "entrypoint", "ports", "expose", "healthcheck", "labels", "logging", "platform", "restart",
    "pull_policy", "stop_grace_period", "stop_signal",
})  # fmt: skip
_PATH_CHARACTERS = 200
_TOP = frozenset({"services", "version", "name"})


@dataclass(frozen=True, slots=True)
class Client:
    """What the task's container is made of; None is the image's own.

    With `compose` the compose file says it, and the rest is empty. `warnings` say what has no
    effect, without naming the task.
    """

    image: ImageSource
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    warnings: tuple[str, ...] = ()
    compose: ComposeReading | None = None


def read_client(
    directory: Path,
    host_environment: Mapping[str, str],
    default_memory_bytes: int | None = None,
) -> Client:
    """Read the service `client` of a task's folder.

    Args:
        directory: the task's folder.
        host_environment: where variables other than the format's own are looked up.
        default_memory_bytes: for further services that declare no memory.

    Raises:
        UsageError: the file is missing or malformed; one line that names file and key.
    """
    path = directory / COMPOSE_FILE
    where = display_path(path)
    variables = _variables(directory)
    document = mapping_of(load_yaml(path, where), where)
    document = _filled(document, {**host_environment, **variables})
    services = mapping_of(document.get("services"), f"{where}: services")
    place = f"{where}: services.{SERVICE}"
    service = mapping_of(services.get(SERVICE), place)
    if not service:
        raise UsageError(f"{place}: missing; it is the task's container")
    image = _image(service, directory, place)
    if not _is_plain(document, service):
        reading = read_compose(
            path,
            variables=variables,
            host_environment=host_environment,
            default_memory_bytes=default_memory_bytes,
            main=SERVICE,
        )
        return Client(image or ImageSource(), compose=reading)
    assert image is not None  # a plain one builds in a plain way
    return Client(
        image=image,
        environment=_environment(service.get("environment"), place, host_environment),
        workdir=_workdir(service, place),
        user=None if service.get("user") is None else str(service["user"]),
        warnings=tuple(
            f"{COMPOSE_FILE}: services.{SERVICE}.{key}: has no effect"
            for key in service
            if key in _WARNED
        ),
    )


def _is_plain(document: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Whether nothing is lost where the client is run as a single container."""
    further = [name for name in document["services"] if name != SERVICE]
    more = [key for key in document if key not in _TOP and not key.startswith("x-")]
    return (
        not further
        and not any(document[key] for key in more)
        and service.keys() <= _TAKEN | _SILENT | _WARNED
        and _is_plain_build(service.get("build"))
        and _are_logs(service.get("volumes") or [])
    )


def _is_plain_build(build: Any) -> bool:
    if not isinstance(build, dict):
        return True
    named = Path(str(build.get("dockerfile", "Dockerfile")))
    return build.keys() <= {"context", "dockerfile"} and named == Path("Dockerfile")


def _are_logs(volumes: Any) -> bool:
    return isinstance(volumes, list) and all(_is_logs(volume) for volume in volumes)


def _is_logs(volume: Any) -> bool:
    return isinstance(volume, str) and volume.partition(":")[0] in _LOGS.values()


def _image(service: Mapping[str, Any], directory: Path, place: str) -> ImageSource | None:
    """Return the image's source; None for a build that only Compose knows how to do."""
    build = service.get("build")
    if build is None:
        image = service.get("image")
        if image is None or image == _client_name(directory):
            raise UsageError(f"{place}.build: missing; add it, or name an image of its own")
        return ImageSource(docker_image=text_of(image, f"{place}.image"))
    if not _is_plain_build(build):
        return None
    where = f"{place}.build"
    values = {"context": build} if isinstance(build, str) else mapping_of(build, where)
    named = text_of(values.get("context", "."), f"{where}.context")
    context = directory / named
    if not named.isprintable() or len(named) > _PATH_CHARACTERS:
        raise UsageError(f"{where}.context: {shown(named)} names no folder")
    # What lies outside is no part of the task: no digest would tell of a change there.
    if not context.resolve().is_relative_to(directory.resolve()):
        raise UsageError(
            f"{where}.context: {shown(named)} lies outside the task's folder; copy it there"
        )
    if not (context / "Dockerfile").is_file():
        raise UsageError(f"{where}: there is no {display_path(context / 'Dockerfile')}; add it")
    return ImageSource(build_context=context.resolve() if ".." in context.parts else context)


def _environment(value: Any, place: str, host_environment: Mapping[str, str]) -> dict[str, str]:
    place = f"{place}.environment"
    if isinstance(value, list):
        pairs = [text_of(item, place).partition("=") for item in value]
        values: dict[str, Any] = {name: text if sign else None for name, sign, text in pairs}
    else:
        values = mapping_of(value, place)
    environment = {}
    for name, text in values.items():
        if text is None:  # as in Compose: the host's variable, where it is set
            text = host_environment.get(name)
        if text is None:
            continue
        if not isinstance(text, str | int | float) or isinstance(text, bool):
            raise UsageError(f"{place}.{name}: must be text or a number, not {shown(text)}")
        environment[name] = str(text)
    return environment


def _workdir(service: Mapping[str, Any], place: str) -> str | None:
    workdir = service.get("working_dir")
    if workdir is None:
        return None
    if not text_of(workdir, f"{place}.working_dir").startswith("/"):
        raise UsageError(f"{place}.working_dir: {workdir!r} is not an absolute path")
    return str(workdir)


def _variables(directory: Path) -> dict[str, str]:
    """Return the variables that the format's harness sets."""
    return {
        **_LOGS,
        "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": _client_name(directory),
        "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": _client_name(directory),
        "T_BENCH_TASK_DOCKER_NAME_PREFIX": _prefix(directory),
        "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
        "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
        "T_BENCH_TEST_DIR": "/tests",
    }


def _prefix(directory: Path) -> str:
    return f"tb__{directory.name}".replace(".", "-")


def _client_name(directory: Path) -> str:
    return f"{_prefix(directory)}__client"


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a document with the variables of all its texts replaced."""
    if isinstance(value, dict):
        return {key: _filled(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    return filled(value, variables) if isinstance(value, str) else value
