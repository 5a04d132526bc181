"""Task directories in the Harbor / Terminal-Bench 2 format, read into `Task`.

`read_task` is the whole interface. The parts it is made of: `schema` (shape of `task.toml`),
`resources` (memory, CPU and disk), `steps` (steps and healthchecks), `instruction`, `templates`
(environment values), `unsupported` (what is refused) and `digest`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import ImageSource, Task
from pytest_infranoise.tasks.artifacts import read_artifacts, read_collect
from pytest_infranoise.tasks.compose import (
    COMPOSE_FILE,
    check_no_services,
    compose_variables,
    read_compose,
    with_compose,
)
from pytest_infranoise.tasks.digest import directory_digest
from pytest_infranoise.tasks.ignore import check_included
from pytest_infranoise.tasks.instruction import read_instruction
from pytest_infranoise.tasks.network import agent_network
from pytest_infranoise.tasks.place import Place, display_path
from pytest_infranoise.tasks.resources import (
    ResourceDefaults,
    declared_storage,
    resource_spec,
)
from pytest_infranoise.tasks.schema import NEWEST_SCHEMA, TaskFile, load, unknown_words
from pytest_infranoise.tasks.scripts import check_line_ends
from pytest_infranoise.tasks.steps import read_healthcheck, read_steps
from pytest_infranoise.tasks.templates import resolve
from pytest_infranoise.tasks.unsupported import refuse_unsupported
from pytest_infranoise.tasks.verifier import add_verifiers, read_workdir
from pytest_infranoise.units import parse_seconds

TASK_FILE = "task.toml"


@dataclass(frozen=True, slots=True)
class TaskReading:
    """A task, and warnings about what its folder holds that has no effect here.

    Facts about the task itself (a default that was used) stand in `task.notes`. The warnings name
    no file, so that a whole study can say each of them once.
    """

    task: Task
    warnings: tuple[str, ...] = ()


def read_task(
    directory: Path,
    *,
    default_memory_bytes: int | None = None,
    default_cpu_cores: float | None = None,
    host_environment: Mapping[str, str],
    uses_solution: bool = True,
) -> TaskReading:
    """Read one task directory; its name is the folder's.

    Args:
        directory: the folder that holds `task.toml`.
        default_memory_bytes: for a task that declares no memory; None refuses it.
        default_cpu_cores: for a task that declares no cpus, from schema 1.2 on (before, the format
            itself says 1); None gives it no CPU guarantee and no quota.
        host_environment: where `${VAR}` is looked up.
        uses_solution: whether the oracle runs, so that variables of `[solution] env` must be set;
            otherwise that table is left out.

    Raises:
        UsageError: one line that names the file, the key and the fix.
    """
    path = directory / TASK_FILE
    place = Place(display_path(path))
    file = load(path, place)
    schema = _schema_version(file, place)
    refuse_unsupported(file, directory, place)
    _check_network(file, place)
    network = agent_network(file, place)
    spec, notes = resource_spec(
        file.environment,
        file.metadata.infranoise,
        schema=schema,
        defaults=ResourceDefaults(default_memory_bytes, default_cpu_cores),
        place=place,
    )
    steps = read_steps(file, directory, place, host_environment)
    solution = directory / "solution"
    solution_env = file.solution.env if uses_solution else {}
    agent_timeout = file.agent.timeout_sec
    task = Task(
        name=directory.name,
        digest=directory_digest(directory),
        spec=spec,
        image=_image(file, directory, place),
        directory=directory,
        instruction=steps[0].instruction if steps else read_instruction(directory),
        solution=solution if (solution / "solve.sh").is_file() else None,
        tests=steps[0].tests[-1] if steps else _tests(directory),
        agent_timeout_seconds=(
            None if agent_timeout is None else _seconds(agent_timeout, place, "agent")
        ),
        verifier_timeout_seconds=_seconds(file.verifier.timeout_sec, place, "verifier"),
        build_timeout_seconds=_seconds(
            file.environment.build_timeout_sec, place, "environment", "build_timeout_sec"
        ),
        environment=resolve(
            file.environment.env, host_environment, table="environment", place=place
        ),
        solution_environment=resolve(solution_env, host_environment, table="solution", place=place),
        verifier_environment=resolve(
            file.verifier.env, host_environment, table="verifier", place=place
        ),
        workdir=read_workdir(file.environment, place),
        agent_user=_user(file.agent.user),
        verifier_user=_user(file.verifier.user),
        leftovers=file.metadata.infranoise.leftovers,
        network=network == "public",
        notes=notes,
        storage_bytes=declared_storage(file.environment, place),
        healthcheck=read_healthcheck(
            file.environment.healthcheck, place, "environment", "healthcheck"
        ),
        steps=steps,
        reward_strategy=file.multi_step_reward_strategy or "mean",
        artifacts=read_artifacts(file.artifacts, place),
        collect=read_collect(file.verifier.collect, place.below("verifier")),
        files=_files(directory, file),
    )
    for folder in (directory, *(directory / "steps" / step.name for step in steps)):
        check_included(folder / "tests", "test.sh")
        check_included(folder / "solution", "solve.sh")
        scripts = ["tests/test.sh", "workdir/setup.sh"] + ["solution/solve.sh"] * uses_solution
        check_line_ends(folder / name for name in scripts)
    task = _with_helpers(task, host_environment, default_memory_bytes)
    task = add_verifiers(task, file, place, host_environment)
    return TaskReading(task, tuple(_warnings(file, task, schema)))


def _schema_version(file: TaskFile, place: Place) -> tuple[int, int]:
    """Return the schema as (major, minor); without a version the newest, as the format has it."""
    old, new = file.version, file.schema_version
    if old is not None and new is not None and old != new:
        raise UsageError(
            f"{place.key('version')}: {old!r} disagrees with schema_version = {new!r}; keep one"
        )
    key = "version" if new is None else "schema_version"
    text = old if new is None else new
    if text is None:
        return NEWEST_SCHEMA
    match = re.fullmatch(r"1\.(\d{1,4})(?:\.\d+)*", text, re.ASCII)
    if match is None:
        raise UsageError(
            f"{place.key(key)}: {text!r} is not a version of the task format that is known here; "
            "write one of 1.0 to 1.4"
        )
    return (1, int(match[1]))


def _check_network(file: TaskFile, place: Place) -> None:
    environment = file.environment
    for key, hosts in _allowed_hosts(file):
        if hosts is not None:
            raise UsageError(
                f"{place.key(*key, 'allowed_hosts')}: only valid with network_mode = "
                "'allowlist'; remove it"
            )
    mode, internet = environment.network_mode, environment.allow_internet
    if mode is not None and internet is not None and (mode == "public") != internet:
        raise UsageError(
            f"{place.key('environment', 'network_mode')}: {mode!r} disagrees with "
            f"allow_internet = {str(internet).lower()}; keep one of the two"
        )


def _allowed_hosts(file: TaskFile) -> Iterator[tuple[tuple[str | int, ...], list[str] | None]]:
    for table in ("environment", "agent", "verifier"):
        yield (table,), getattr(file, table).allowed_hosts
    for number, step in enumerate(file.steps):
        yield ("steps", number, "agent"), step.agent.allowed_hosts
        yield ("steps", number, "verifier"), step.verifier.allowed_hosts


def _with_helpers(
    task: Task, host_environment: Mapping[str, str], default_memory_bytes: int | None
) -> Task:
    """Return the task with the services of its compose file, if it has one."""
    assert task.directory is not None
    context = task.directory / "environment"
    path = context / COMPOSE_FILE
    if not path.is_file():
        check_no_services(task)
        return task
    reading = read_compose(
        path,
        variables=compose_variables(task, context),
        host_environment=host_environment,
        default_memory_bytes=default_memory_bytes,
    )
    if task.image == ImageSource() and not reading.has_main_image:
        raise UsageError(f"{display_path(path)}: services.main: no image, and no Dockerfile beside")
    return with_compose(task, reading)


def _image(file: TaskFile, directory: Path, place: Place) -> ImageSource:
    """Return the image's source; with a name, a Dockerfile beside it still tells WORKDIR, ENV.

    None at all where a compose file is left to say it.
    """
    name = file.environment.docker_image
    context = directory / "environment"
    has_dockerfile = (context / "Dockerfile").is_file()
    if name is not None and not name.strip():
        where = place.key("environment", "docker_image")
        raise UsageError(f"{where}: empty; name an image, or remove the key to build one")
    if name is None and not has_dockerfile and not (context / COMPOSE_FILE).is_file():
        raise UsageError(
            f"{display_path(context / 'Dockerfile')}: missing; add it, or name an image with "
            f"[environment] docker_image{unknown_words(file.environment)}"
        )
    return ImageSource(name, context if has_dockerfile else None)


def _files(directory: Path, file: TaskFile) -> Path | None:
    """Return the folder whose files a prebuilt image gets, since no Dockerfile puts them there."""
    folder = directory / "environment"
    is_built = any((folder / name).is_file() for name in ("Dockerfile", COMPOSE_FILE))
    if file.environment.docker_image is None or is_built or not folder.is_dir():
        return None
    return folder if any(folder.iterdir()) else None


def _tests(directory: Path) -> Path:
    tests = directory / "tests"
    if not (tests / "test.sh").is_file():
        raise UsageError(
            f"{display_path(tests / 'test.sh')}: missing; a task without it cannot be verified"
        )
    return tests


def _seconds(value: object, place: Place, table: str, key: str = "timeout_sec") -> float:
    return parse_seconds(value, where=place.key(table, key))  # type: ignore[arg-type]


def _user(user: str | int | None) -> str | None:
    return None if user is None else str(user)


def _warnings(file: TaskFile, task: Task, schema: tuple[int, int]) -> Iterator[str]:
    for key in file.unknown_keys():
        yield f"{key}: unknown key, ignored"
    if schema > NEWEST_SCHEMA:
        newest = ".".join(str(part) for part in NEWEST_SCHEMA)
        yield f"schema_version 1.{schema[1]} is newer than {newest}, read as {newest}"
    if not task.verifiers and (task.artifacts or any(step.artifacts for step in task.steps)):
        yield "artifacts: not collected: only a separate verifier gets them"
