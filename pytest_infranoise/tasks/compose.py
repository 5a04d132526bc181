"""`environment/docker-compose.yaml`: which services there are, and what they need.

Only what has to be known before any engine is asked: the helper services and their resources, for
the guarantee. What the rest of the file means is left to the Compose that runs it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import (
    LOGS_SOURCE,
    MAIN_SERVICE,
    ComposeSource,
    HelperService,
    Task,
    TaskStep,
    compose_task_folder,
)
from pytest_infranoise.tasks.place import display_path
from pytest_infranoise.tasks.resources import MEMORY_OPTION, check_memory
from pytest_infranoise.tasks.yaml_file import load_yaml, mapping_of
from pytest_infranoise.units import MIB, format_size, parse_cores, parse_size

COMPOSE_FILE = "docker-compose.yaml"

_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<plain>\w+)|\{(?P<name>\w+)(?P<kind>:?[-?+])?(?P<word>[^}]*)\})"
)


@dataclass(frozen=True, slots=True)
class ComposeReading:
    """What a compose file says; `has_main_image` is whether it names or builds `main`'s image."""

    source: ComposeSource
    has_main_image: bool
    notes: tuple[str, ...] = ()


def read_compose(
    path: Path,
    *,
    variables: Mapping[str, str],
    host_environment: Mapping[str, str],
    default_memory_bytes: int | None = None,
    main: str = MAIN_SERVICE,
) -> ComposeReading:
    """Read a compose file; `main` is the service that the agent works in.

    Args:
        path: the file.
        variables: what Compose gets on top of `host_environment` for `${VAR}`.
        host_environment: the variables of this process.
        default_memory_bytes: for helper services that declare no memory; None refuses them.
        main: the name of the service that the agent works in; it need not be in the file.

    Raises:
        UsageError: one line that names the file, the service and the key.
    """
    where = display_path(path)
    document = mapping_of(load_yaml(path, where), where)
    services = mapping_of(document.get("services"), f"{where}: services")
    if not services:
        raise UsageError(f"{where}: services: missing; name at least one")
    reader = _Reader(where, {**host_environment, **variables}, default_memory_bytes)
    helpers = []
    for name, value in services.items():
        service = mapping_of(value, f"{where}: services.{name}")
        reader.check_env_files(name, service, path)
        if name != main and not service.get("profiles"):  # a profile that nobody asks for
            helpers.append(reader.helper(name, service))
    own = mapping_of(services.get(main), f"{where}: services.{main}")
    source = ComposeSource(path, where, main, dict(variables), tuple(helpers))
    return ComposeReading(source, bool(own.get("image") or own.get("build")), tuple(reader.notes))


def compose_variables(task: Task, context: Path) -> dict[str, str]:
    """Return what the format's own harness gives to templates in a compose file.

    The main image's name is the engine's to add.
    """
    variables = {**task.environment, "CONTEXT_DIR": str(context)}
    if task.image.docker_image is not None:
        variables["PREBUILT_IMAGE_NAME"] = task.image.docker_image
    variables["MEMORY"] = f"{task.spec.memory_limit_bytes // MIB}M"
    if task.spec.cpu_limit_cores is not None:
        variables["CPUS"] = f"{task.spec.cpu_limit_cores:g}"
    for name, folder in (("VERIFIER_LOGS", "verifier"), ("AGENT_LOGS", "agent")):
        variables[f"HOST_{name}_PATH"] = f"{LOGS_SOURCE}/{folder}"
        variables[f"ENV_{name}_PATH"] = f"/logs/{folder}"
    variables["HOST_ARTIFACTS_PATH"] = f"{LOGS_SOURCE}/artifacts"
    variables["ENV_ARTIFACTS_PATH"] = "/logs/artifacts"
    return variables


def with_compose(task: Task, reading: ComposeReading) -> Task:
    """Return the task with its compose file, and its helpers added to what is reserved.

    Raises:
        UsageError: an artifact or a collecting command names a service that there is not.
    """
    helpers = reading.source.helpers
    _check_services(task, {MAIN_SERVICE, *(item.name for item in helpers)})
    spec = replace(
        task.spec,
        beside_memory_bytes=task.spec.beside_memory_bytes
        + sum(item.memory_guarantee_bytes for item in helpers),
        beside_cpu_cores=task.spec.beside_cpu_cores
        + sum(item.cpu_guarantee_cores or 0.0 for item in helpers),
    )
    return replace(task, compose=reading.source, spec=spec, notes=(*task.notes, *reading.notes))


def check_no_services(task: Task) -> None:
    """Refuse artifacts and commands of helper services in a task that has none."""
    _check_services(task, {MAIN_SERVICE})


def _check_services(task: Task, known: set[str]) -> None:
    parts: tuple[Task | TaskStep, ...] = (task, *task.steps)
    named = [item.service for part in parts for item in part.artifacts]
    named += [item.service for part in parts for item in part.collect]
    for name in named:
        if name not in known:
            assert task.directory is not None
            raise UsageError(
                f"{display_path(task.directory / 'task.toml')}: service {name!r} of an "
                f"artifact or a collect command is not in environment/{COMPOSE_FILE}"
            )


class _Reader:
    def __init__(
        self, file: str, variables: Mapping[str, str], default_memory_bytes: int | None
    ) -> None:
        self.file = file
        self.variables = variables
        self.default_memory_bytes = default_memory_bytes
        self.notes: list[str] = []

    def helper(self, name: str, service: Mapping[str, Any]) -> HelperService:
        limits = self._resources(name, service, "limits")
        reservations = self._resources(name, service, "reservations")
        memory = self._one(name, self._size, service.get("mem_limit"), limits.get("memory"))
        reserved = self._one(
            name, self._size, service.get("mem_reservation"), reservations.get("memory")
        )
        cores = self._one(name, self._cores, service.get("cpus"), limits.get("cpus"))
        reserved_cores = self._one(name, self._cores, None, reservations.get("cpus"))
        if memory is None:
            memory = self._default_memory(name)
        return HelperService(
            name=name,
            memory_limit_bytes=int(memory),
            memory_guarantee_bytes=int(min(memory, memory if reserved is None else reserved)),
            cpu_limit_cores=cores,
            cpu_guarantee_cores=cores if reserved_cores is None else reserved_cores,
        )

    def check_env_files(self, name: str, service: Mapping[str, Any], file: Path) -> None:
        """Refuse variables out of files that are not the task's; Compose reads them unasked."""
        given = service.get("env_file") or ()
        folder, root = file.resolve().parent, compose_task_folder(file)
        for item in given if isinstance(given, list) else [given]:
            entry = str(self._filled(item.get("path") if isinstance(item, dict) else item))
            if not (folder / Path(entry).expanduser()).resolve().is_relative_to(root):
                raise UsageError(
                    f"{self.file}: services.{name}.env_file: {entry} lies outside the task's "
                    "folder; copy it there"
                )

    def _default_memory(self, name: str) -> int:
        if self.default_memory_bytes is None:
            raise UsageError(
                f"{self.file}: services.{name}.mem_limit: not set, and no limit is ever invented; "
                f"declare it, or name a default with the ini option {MEMORY_OPTION}"
            )
        size = format_size(self.default_memory_bytes)
        self.notes.append(f"service {name}: memory {size} from {MEMORY_OPTION}: it declares none")
        return self.default_memory_bytes

    def _resources(self, name: str, service: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
        where = f"{self.file}: services.{name}.deploy"
        deploy = mapping_of(service.get("deploy"), where)
        if deploy.get("replicas", 1) != 1 or service.get("scale", 1) != 1:
            raise UsageError(
                f"{where}.replicas: more than one container of a service is not supported"
            )
        resources = mapping_of(deploy.get("resources"), f"{where}.resources")
        return mapping_of(resources.get(kind), f"{where}.resources.{kind}")

    def _one(self, name: str, parse: Any, short: Any, deployed: Any) -> Any:
        """Return a figure that has two spellings."""
        found = [parse(name, value) for value in (short, deployed) if value is not None]
        if len(found) == 2 and found[0] != found[1]:
            raise UsageError(
                f"{self.file}: services.{name}: {short!r} disagrees with {deployed!r} in "
                "deploy.resources; keep one of the two"
            )
        return found[0] if found else None

    def _size(self, name: str, value: Any) -> int:
        where = f"{self.file}: services.{name} memory"
        return check_memory(parse_size(self._filled(value), where=where), where=where)

    def _cores(self, name: str, value: Any) -> float:
        return parse_cores(self._filled(value), where=f"{self.file}: services.{name} cpus")

    def _filled(self, value: Any) -> Any:
        return filled(value, self.variables) if isinstance(value, str) else value


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with its variables replaced, as Compose does it."""
    return _VARIABLE.sub(lambda match: _value(match, variables), text)


def _value(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["escaped"]:
        return "$"
    found = variables.get(match["plain"] or match["name"])
    kind, word = match["kind"] or "", match["word"] or ""
    if kind.endswith("+"):
        return word if found or (found is not None and kind == "+") else ""
    is_missing = not found if kind.startswith(":") else found is None
    return word if is_missing and kind.endswith("-") else found or ""
