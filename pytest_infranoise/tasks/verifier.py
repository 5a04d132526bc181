"""A verifier with a sandbox of its own: its image, resources and variables."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.model.task import ImageSource, SeparateVerifier, Task
from pytest_infranoise.tasks.compose import COMPOSE_FILE
from pytest_infranoise.tasks.network import verifier_network
from pytest_infranoise.tasks.place import Place, display_path
from pytest_infranoise.tasks.resources import declared_storage, spec_or
from pytest_infranoise.tasks.schema import EnvironmentTable, NetworkMode, TaskFile, VerifierTable
from pytest_infranoise.tasks.separation import is_separate
from pytest_infranoise.tasks.steps import read_healthcheck
from pytest_infranoise.tasks.templates import resolve
from pytest_infranoise.units import parse_seconds


def add_verifiers(
    task: Task, file: TaskFile, place: Place, host_environment: Mapping[str, str]
) -> Task:
    """Return the task with the separate verifiers that its file asks for.

    What has to be reserved for them is added to the task's spec: a verifier runs when the agent's
    sandbox has ended, so that only what it needs beyond that counts; but beside it where there are
    steps, of which the next one goes on in the same sandbox.

    Raises:
        UsageError: one line that names the file and the key.
    """
    assert task.directory is not None
    tests = task.directory / "tests"
    reader = _Reader(task, file, host_environment)
    _check_modes(file, place)
    verifier = None
    if not task.steps and is_separate(file, file.verifier):
        verifier = reader.read([(file.verifier, place.below("verifier"), tests)])
    steps = []
    for number, (step, table) in enumerate(zip(task.steps, file.steps, strict=True)):
        own = None
        if is_separate(file, table.verifier):
            folder = task.directory / "steps" / step.name / "tests"
            below = place.below("steps", number, "verifier")
            own = reader.read(
                [(table.verifier, below, folder), (file.verifier, place.below("verifier"), tests)]
            )
        steps.append(replace(step, verifier=own))
    found = replace(task, verifier=verifier, steps=tuple(steps))
    specs = [item.sandbox.spec for item in found.verifiers]
    return replace(found, spec=_with_verifiers(task.spec, specs, at_once=bool(steps)))


def _check_modes(file: TaskFile, place: Place) -> None:
    for table, where in _tables(file, place):
        if table.environment_mode == "shared" and table.environment is not None:
            raise UsageError(
                f"{where.key('environment_mode')}: 'shared' disagrees with the environment beside "
                "it; remove one of the two"
            )


def _tables(file: TaskFile, place: Place) -> Iterator[tuple[VerifierTable, Place]]:
    yield file.verifier, place.below("verifier")
    for number, step in enumerate(file.steps):
        yield step.verifier, place.below("steps", number, "verifier")


def _with_verifiers(
    spec: ResourceSpec, verifiers: list[ResourceSpec], *, at_once: bool
) -> ResourceSpec:
    """Return the spec with what verifiers need beside (`at_once`) or beyond the agent's share."""
    own_memory, own_cores = 0, 0.0
    if not at_once:
        own_memory = spec.memory_guarantee_bytes + spec.beside_memory_bytes
        own_cores = (spec.cpu_guarantee_cores or 0.0) + spec.beside_cpu_cores
    memory = max((item.memory_guarantee_bytes - own_memory for item in verifiers), default=0)
    cores = max(((item.cpu_guarantee_cores or 0.0) - own_cores for item in verifiers), default=0.0)
    return replace(
        spec,
        beside_memory_bytes=spec.beside_memory_bytes + max(0, memory),
        beside_cpu_cores=spec.beside_cpu_cores + max(0.0, cores),
    )


class _Reader:
    def __init__(self, task: Task, file: TaskFile, host_environment: Mapping[str, str]) -> None:
        self.task = task
        self.file = file
        self.host_environment = host_environment

    def read(self, levels: list[tuple[VerifierTable, Place, Path]]) -> SeparateVerifier:
        """Read a separate verifier from its table and those that it falls back to, nearest first.

        Each level has its place and the folder with its tests.
        """
        environment, place = self.file.environment, Place(levels[0][1].file)
        for table, below, _ in levels:
            if table.environment is not None:
                environment, place = table.environment, below
                break
        image, has_tests = self._image(levels)
        network = verifier_network(environment, [table for table, _, _ in levels])
        sandbox = self._sandbox(environment, place, image, network)
        # An image of the verifier's own has all that it needs.
        files = None if has_tests else self.task.files
        return SeparateVerifier(replace(sandbox, files=files), has_tests)

    def _image(self, levels: list[tuple[VerifierTable, Place, Path]]) -> tuple[ImageSource, bool]:
        """Return the image, and whether it brings the tests: any but the task's own does."""
        for table, below, folder in levels:
            name = None if table.environment is None else table.environment.docker_image
            if name is not None:
                if not name.strip():
                    where = below.key("environment", "docker_image")
                    raise UsageError(f"{where}: empty; name an image, or remove the key")
                return ImageSource(name), True
            if (folder / COMPOSE_FILE).is_file():
                raise UsageError(
                    f"{display_path(folder / COMPOSE_FILE)}: a verifier of several containers, "
                    "which is not supported yet; leave this task out"
                )
            if (folder / "Dockerfile").is_file():
                return ImageSource(None, folder), True
        if self.task.compose is not None:
            raise UsageError(
                f"{self.task.compose.place}: a separate verifier of several containers, which is "
                "not supported yet; give it an image of its own (tests/Dockerfile), or leave this "
                "task out"
            )
        return self.task.image, False

    def _sandbox(
        self, table: EnvironmentTable, place: Place, image: ImageSource, network: NetworkMode
    ) -> Task:
        return Task(
            name=f"{self.task.name}-verifier",
            digest=self.task.digest,
            spec=spec_or(table, self.task.spec, place),
            image=image,
            build_timeout_seconds=parse_seconds(
                table.build_timeout_sec, where=place.key("environment", "build_timeout_sec")
            ),
            environment=resolve(table.env, self.host_environment, table="environment", place=place),
            workdir=read_workdir(table, place),
            network=network == "public",
            storage_bytes=declared_storage(table, place),
            healthcheck=read_healthcheck(table.healthcheck, place, "environment", "healthcheck"),
        )


def read_workdir(table: EnvironmentTable, place: Place) -> str | None:
    """Return an environment's working folder, None for its image's."""
    if table.workdir is not None and not table.workdir.startswith("/"):
        where = place.key("environment", "workdir")
        raise UsageError(
            f"{where}: {table.workdir!r} is not an absolute path; write for example /app"
        )
    return table.workdir
