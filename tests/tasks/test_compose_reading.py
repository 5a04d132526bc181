"""Compose files as they are read before any engine is asked."""

from pathlib import Path

import pytest
from task_maker import MEMORY, TaskMaker, error_of

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import HelperService, Task
from pytest_infranoise.tasks.compose import read_compose
from pytest_infranoise.tasks.harbor import TaskReading, read_task
from pytest_infranoise.units import GIB, MIB

COMPOSE = "environment/docker-compose.yaml"
DB = "services:\n  db:\n    image: x\n"


def read(directory: Path, memory: int | None = None) -> TaskReading:
    return read_task(directory, host_environment={"HOST": "96m"}, default_memory_bytes=memory)


def with_file(make_task: TaskMaker, text: str, toml: str = MEMORY, **files: str | None) -> Path:
    return make_task(toml, files={COMPOSE: text, **files})


def helper_of(tmp_path: Path, lines: str) -> HelperService:
    path = tmp_path / "docker-compose.yaml"
    path.write_text(f"{DB}{lines}")
    reading = read_compose(path, variables={"SIZE": "64m"}, host_environment={"HOST": "96m"})
    (helper,) = reading.source.helpers
    return helper


@pytest.mark.parametrize(
    ("lines", "memory", "cores"),
    [
        ("    mem_limit: 64m\n", (64, 64), (None, None)),
        ("    mem_limit: 67108864\n", (64, 64), (None, None)),
        ("    mem_limit: 1gb\n    mem_reservation: 256m\n", (1024, 256), (None, None)),
        ("    mem_limit: 64m\n    mem_reservation: 256m\n", (64, 64), (None, None)),
        ("    mem_limit: 64m\n    cpus: 0.5\n", (64, 64), (0.5, 0.5)),
        (
            "    deploy: {resources: {limits: {memory: 64M, cpus: '2'}, "
            "reservations: {memory: 32M, cpus: '0.5'}}}\n",
            (64, 32),
            (2.0, 0.5),
        ),
        (
            "    mem_limit: 64m\n    deploy: {resources: {limits: {memory: 64M}}}\n",
            (64, 64),
            (None, None),
        ),
        ("    mem_limit: ${SIZE}\n", (64, 64), (None, None)),
        ("    mem_limit: $SIZE\n", (64, 64), (None, None)),
        ("    mem_limit: ${HOST}\n", (96, 96), (None, None)),
        ("    mem_limit: ${NONE:-8m}\n", (8, 8), (None, None)),
        ("    mem_limit: ${NONE-8m}\n", (8, 8), (None, None)),
        ("    mem_limit: ${SIZE:+16m}\n", (16, 16), (None, None)),
    ],
)
def test_what_a_helper_declares(
    tmp_path: Path,
    lines: str,
    memory: tuple[int, int],
    cores: tuple[float | None, float | None],
) -> None:
    helper = helper_of(tmp_path, lines)
    limits = (helper.memory_limit_bytes // MIB, helper.memory_guarantee_bytes // MIB)
    assert limits == memory
    assert (helper.cpu_limit_cores, helper.cpu_guarantee_cores) == cores


def test_helpers_are_added_to_the_reservation(make_task: TaskMaker) -> None:
    text = f"{DB}    mem_limit: 64m\n    cpus: 0.5\n  cache:\n    image: y\n    mem_limit: 32m\n"
    task = read(with_file(make_task, text)).task
    assert (task.spec.beside_memory_bytes, task.spec.beside_cpu_cores) == (96 * MIB, 0.5)
    assert task.spec.memory_guarantee_bytes == 512 * MIB
    assert task.compose is not None
    assert [item.name for item in task.compose.helpers] == ["db", "cache"]


def test_a_separate_verifier_runs_when_the_helpers_are_gone(make_task: TaskMaker) -> None:
    text = f"{DB}    mem_limit: 256m\n"
    toml = f"{MEMORY}[verifier.environment]\nmemory = '%s'\n"
    for size, beside in (("512M", 256), ("768M", 256), ("1G", 512)):
        task = read(
            with_file(make_task, text, toml % size, **{"tests/Dockerfile": "FROM x\n"})
        ).task
        assert task.spec.beside_memory_bytes == beside * MIB


def test_what_templates_stand_for(make_task: TaskMaker) -> None:
    toml = f"{MEMORY}cpus = 1.5\ndocker_image = 'a/b'\nenv = {{ MINE = 'x' }}\n"
    directory = with_file(make_task, "services:\n  main: {}\n", toml)
    task = read(directory).task
    assert task.compose is not None
    assert task.compose.helpers == ()
    found = task.compose.variables
    assert found["CONTEXT_DIR"] == str(directory / "environment")
    expected = {"PREBUILT_IMAGE_NAME": "a/b", "CPUS": "1.5", "MEMORY": "512M", "MINE": "x"}
    assert expected.items() <= found.items()
    assert found["ENV_VERIFIER_LOGS_PATH"] == "/logs/verifier"


def test_a_default_is_used_and_noted(make_task: TaskMaker) -> None:
    task: Task = read(with_file(make_task, DB), GIB).task
    assert task.compose is not None
    assert task.compose.helpers[0].memory_limit_bytes == GIB
    assert task.notes[-1] == "service db: memory 1 GiB from infra_default_memory: it declares none"


def test_a_service_of_a_profile_does_not_run(make_task: TaskMaker) -> None:
    task = read(with_file(make_task, f"{DB}    profiles: [debug]\n")).task
    assert task.compose is not None
    assert task.compose.helpers == ()


def test_the_file_can_name_the_image_of_the_main_service(make_task: TaskMaker) -> None:
    none = {"environment/Dockerfile": None}
    task = read(with_file(make_task, "services:\n  main: {image: x}\n", **none)).task
    assert task.image.build_context is None
    message = error_of(with_file(make_task, f"{DB}    mem_limit: 64m\n", **none))
    assert message.startswith(f"spike/{COMPOSE}: services.main: no image")


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        ("services: [", "", "not valid YAML"),
        ("- a\n", "", "must be a mapping"),
        ("{}\n", "services", "missing"),
        ("services: [a]\n", "services", "must be a mapping"),
        ("services: {db: 3}\n", "services.db", "must be a mapping"),
        (DB, "services.db.mem_limit", "infra_default_memory"),
        (f"{DB}    mem_limit: lots\n", "services.db memory", "not a size"),
        (f"{DB}    mem_limit: 5\n", "services.db memory", "too little"),
        (f"{DB}    mem_limit: $NONE\n", "services.db memory", "not a size"),
        (f"{DB}    mem_limit: 64m\n    cpus: x\n", "services.db cpus", "CPU cores"),
        (
            f"{DB}    mem_limit: 64m\n    deploy: {{resources: {{limits: {{memory: 65M}}}}}}\n",
            "services.db",
            "disagrees",
        ),
        (f"{DB}    mem_limit: 64m\n    scale: 2\n", "services.db.deploy.replicas", "more than one"),
        (f"{DB}    mem_limit: 64m\n    deploy: 3\n", "services.db.deploy", "must be a mapping"),
    ],
)
def test_mistakes(make_task: TaskMaker, text: str, key: str, fix: str) -> None:
    message = error_of(with_file(make_task, text))
    assert message.startswith(f"spike/{COMPOSE}: {key}")
    assert fix in message


@pytest.mark.parametrize(
    "toml",
    [
        f"artifacts = [{{ source = '/x', service = 'nobody' }}]\n{MEMORY}",
        f"{MEMORY}[[verifier.collect]]\ncommand = 'x'\nservice = 'nobody'\n",
    ],
)
@pytest.mark.parametrize("text", [None, f"{DB}    mem_limit: 64m\n"])
def test_a_service_that_there_is_not(make_task: TaskMaker, toml: str, text: str | None) -> None:
    message = error_of(make_task(toml, files={COMPOSE: text}))
    assert message.startswith("spike/task.toml: service 'nobody'")


def test_a_verifier_of_several_containers_is_refused(make_task: TaskMaker) -> None:
    toml = f"{MEMORY}[verifier]\nenvironment_mode = 'separate'\n"
    message = error_of(with_file(make_task, f"{DB}    mem_limit: 64m\n", toml))
    assert message.startswith(f"spike/{COMPOSE}: ")
    assert "not supported yet" in message


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("/etc/environment", "/etc/environment"),
        ("[own.env, ../../other.env]", "../../other.env"),
        ("{path: ~/.env}", "~/.env"),
        ("[{path: '${OUT}'}]", "/etc/hosts"),
    ],
)
def test_files_of_variables_are_the_tasks_own(tmp_path: Path, given: str, named: str) -> None:
    path = tmp_path / "task" / "environment" / "docker-compose.yaml"
    path.parent.mkdir(parents=True)
    for text in ("own.env", "[../own.env]", "{path: ./own.env, required: false}"):
        path.write_text(f"{DB}    mem_limit: 64m\n    env_file: {text}\n")
        read_compose(path, variables={}, host_environment={})
    path.write_text(f"{DB}    mem_limit: 64m\n    env_file: {given}\n")
    with pytest.raises(UsageError) as caught:
        read_compose(path, variables={"OUT": "/etc/hosts"}, host_environment={})
    assert f"services.db.env_file: {named} lies outside the task's folder" in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "x-0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)),
            "expands to more than 100,000 values",
        ),
        ("x-0: &a {b: [*a]}\n", "an alias stands inside what it stands for"),
    ],
)
def test_aliases_cannot_make_a_file_endless(tmp_path: Path, lines: str, words: str) -> None:
    path = tmp_path / "docker-compose.yaml"
    path.write_text(f"{DB}    mem_limit: 64m\n{lines}")
    with pytest.raises(UsageError, match=words) as caught:
        read_compose(path, variables={}, host_environment={})
    assert "\n" not in str(caught.value)
