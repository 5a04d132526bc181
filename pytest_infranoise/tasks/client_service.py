"""The service `client` of a Terminal-Bench 1 task's `docker-compose.yaml`, as a single container.

Only what a single container has is taken over. What would make it another task is refused by name;
what has no effect here is a warning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import ImageSource
from pytest_infranoise.tasks.place import display_path
from pytest_infranoise.tasks.yaml_file import load_yaml, mapping_of, shown, text_of

COMPOSE_FILE = "docker-compose.yaml"
SERVICE = "client"
TEST_DIRECTORY = "/tests"

_BUILT = "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME"
_HOST_FOLDERS = {
    "T_BENCH_TASK_LOGS_PATH": "/infranoise-host/logs",
    "T_BENCH_TASK_AGENT_LOGS_PATH": "/infranoise-host/agent-logs",
}
"""Folders that the format's harness mounts to take logs out; no volume is needed for that here."""
_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<plain>[A-Za-z_]\w*)"
    r"|\{(?P<name>[A-Za-z_]\w*)(?:(?P<operator>:?-)(?P<default>[^}]*))?\}|(?P<other>\{))"
)
_TAKEN = frozenset({"build", "image", "environment", "working_dir", "user", "volumes"})
_SILENT = frozenset({"command", "container_name", "stdin_open", "tty", "init", "hostname"})
_WARNED = frozenset({
    "entrypoint", "ports", "expose", "healthcheck", "labels", "logging", "platform", "restart",
    "pull_policy", "stop_grace_period", "stop_signal",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Client:
    """What a single container is made of; None is the image's own.

    `warnings` say what has no effect, without naming the task.
    """

    image: ImageSource
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    warnings: tuple[str, ...] = ()


def read_client(directory: Path, host_environment: Mapping[str, str]) -> Client:
    """Read the service `client` of a task's folder.

    Args:
        directory: the task's folder.
        host_environment: where variables other than the format's own are looked up.

    Raises:
        UsageError: the file is missing or malformed, or a key cannot be had in one container; one
            line that names file and key.
    """
    path = directory / COMPOSE_FILE
    where = display_path(path)
    document = mapping_of(load_yaml(path, where), where)
    document = _substituted(document, _variables(directory, host_environment), where)
    services = mapping_of(document.get("services"), f"{where}: services")
    _refuse(document, services, where)
    place = f"{where}: services.{SERVICE}"
    service = mapping_of(services[SERVICE], place)
    for key in service:
        if key not in _TAKEN | _SILENT | _WARNED:
            raise UsageError(f"{place}.{key}: not supported; leave this task out")
    _check_volumes(service.get("volumes"), place)
    return Client(
        image=_image(service, directory, place),
        environment=_environment(service.get("environment"), place, host_environment),
        workdir=_workdir(service, place),
        user=None if service.get("user") is None else str(service["user"]),
        warnings=tuple(
            f"{COMPOSE_FILE}: services.{SERVICE}.{key}: has no effect"
            for key in service
            if key in _WARNED
        ),
    )


def _refuse(document: Mapping[str, Any], services: Mapping[str, Any], where: str) -> None:
    if SERVICE not in services:
        raise UsageError(f"{where}: services.{SERVICE}: missing; it is the task's container")
    for name in services:
        if name != SERVICE:
            raise UsageError(
                f"{where}: services.{name}: a further service, which is not supported in this "
                "format; leave this task out"
            )
    for key, value in document.items():
        if key not in ("services", "version", "name") and not key.startswith("x-") and value:
            raise UsageError(f"{where}: {key}: not supported; leave this task out")


def _image(service: Mapping[str, Any], directory: Path, place: str) -> ImageSource:
    build = service.get("build")
    if build is not None:
        return ImageSource(build_context=_context(build, directory, f"{place}.build"))
    image = service.get("image")
    if image is None or image == _client_name(directory):
        raise UsageError(f"{place}.build: missing; add it, or name an image of its own")
    return ImageSource(docker_image=text_of(image, f"{place}.image"))


def _context(build: Any, directory: Path, place: str) -> Path:
    """Return the folder that is built; its file must be called Dockerfile."""
    values = {"context": build} if isinstance(build, str) else mapping_of(build, place)
    for key in values:
        if key not in ("context", "dockerfile"):
            raise UsageError(f"{place}.{key}: not supported; leave this task out")
    context = directory / text_of(values.get("context", "."), f"{place}.context")
    dockerfile = text_of(values.get("dockerfile", "Dockerfile"), f"{place}.dockerfile")
    if Path(dockerfile) != Path("Dockerfile"):
        raise UsageError(f"{place}.dockerfile: {dockerfile!r} is not called Dockerfile; rename it")
    if not (context / "Dockerfile").is_file():
        raise UsageError(f"{place}: there is no {display_path(context / 'Dockerfile')}; add it")
    return context.resolve() if ".." in context.parts else context


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


def _check_volumes(value: Any, place: str) -> None:
    for volume in value or ():
        source = str(volume).partition(":")[0]
        if not isinstance(volume, str) or source not in _HOST_FOLDERS.values():
            raise UsageError(
                f"{place}.volumes: {shown(volume)} is not supported; leave this task out"
            )


def _variables(directory: Path, host_environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the format's harness sets, over the host's."""
    return {
        **host_environment,
        **_HOST_FOLDERS,
        _BUILT: _client_name(directory),
        "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": _client_name(directory),
        "T_BENCH_TASK_DOCKER_NAME_PREFIX": f"tb__{directory.name}".replace(".", "-"),
        "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
        "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
        "T_BENCH_TEST_DIR": TEST_DIRECTORY,
    }


def _client_name(directory: Path) -> str:
    return f"tb__{directory.name}__client".replace(".", "-")


def _substituted(value: Any, variables: Mapping[str, str], where: str) -> Any:
    """Return a document with the variables of all its texts replaced, as Compose does."""
    if isinstance(value, dict):
        return {key: _substituted(item, variables, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_substituted(item, variables, where) for item in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda match: _replacement(match, variables, where), value)


def _replacement(match: re.Match[str], variables: Mapping[str, str], where: str) -> str:
    if match["escaped"]:
        return "$"
    if match["other"]:
        raise UsageError(f"{where}: {match.string[:100]!r} holds a variable that cannot be read")
    name = match["name"] or match["plain"]
    value = variables.get(name)
    if match["operator"] == ":-" and not value:
        return match["default"]
    if value is None:
        if match["operator"]:
            return match["default"]
        raise UsageError(
            f"{where}: {name} is not set here; set it, or give a default: ${{{name}:-}}"
        )
    return value
