"""Separate verifiers, artifacts and collecting commands, as they are read."""

from pathlib import Path

import pytest
from task_maker import MEMORY, TaskMaker, error_of

from pytest_infranoise.model.task import Artifact, CollectCommand, Task
from pytest_infranoise.tasks.harbor import read_task
from pytest_infranoise.units import GIB, MIB

SEPARATE = f"{MEMORY}cpus = 2\n[verifier]\nenvironment_mode = 'separate'\n"
OWN = f"{MEMORY}cpus = 2\n[verifier.environment]\n"
STEP = "[[steps]]\nname = 'one'\n"
ONE = {"steps/one/instruction.md": "One.\n"}


def read(directory: Path, **options: object) -> Task:
    return read_task(directory, host_environment={"HOST": "value"}, **options).task  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("toml", "is_separate"),
    [
        (MEMORY, False),
        (f"{MEMORY}[verifier]\nenvironment_mode = 'shared'", False),
        (SEPARATE, True),
        (f"{OWN}cpus = 1", True),
        (f"{SEPARATE}[verifier.environment]\ncpus = 1", True),
    ],
)
def test_modes(make_task: TaskMaker, toml: str, is_separate: bool) -> None:
    assert (read(make_task(toml)).verifier is not None) is is_separate


@pytest.mark.parametrize(
    ("tasks", "steps", "is_separate"),
    [
        ("", "", False),
        ("environment_mode = 'separate'", "", True),
        ("environment_mode = 'separate'", "verifier.environment_mode = 'shared'", False),
        ("", "verifier.environment_mode = 'separate'", True),
        ("environment_mode = 'shared'", "verifier.environment.cpus = 1", True),
        ("environment.cpus = 1", "", True),
    ],
)
def test_a_step_goes_before_the_task(
    make_task: TaskMaker, tasks: str, steps: str, is_separate: bool
) -> None:
    task = read(make_task(f"{MEMORY}[verifier]\n{tasks}\n{STEP}{steps}\n", files=ONE))
    assert (task.steps[0].verifier is not None) is is_separate
    assert task.verifier is None
    assert len(task.verifiers) == is_separate


def test_what_a_verifier_declares(make_task: TaskMaker) -> None:
    toml = (
        f"{OWN}memory_mb = 2048\ncpus = 3\nworkdir = '/check'\nbuild_timeout_sec = 5\n"
        "network_mode = 'no-network'\nenv = { A = '${HOST}' }\nstorage = '1G'\n"
        "[verifier.environment.healthcheck]\ncommand = 'true'\n"
    )
    task = read(make_task(toml))
    assert task.verifier is not None
    own = task.verifier.sandbox
    assert (own.spec.memory_limit_bytes, own.spec.cpu_limit_cores) == (2 * GIB, 3.0)
    assert (own.workdir, own.network, own.storage_bytes) == ("/check", False, GIB)
    assert (own.build_timeout_seconds, dict(own.environment)) == (5.0, {"A": "value"})
    assert own.healthcheck is not None
    assert (task.network, task.workdir) == (True, None)


@pytest.mark.parametrize(
    ("toml", "memory", "cores", "beside"),
    [
        (SEPARATE, 512 * MIB, 2.0, (0, 0.0)),
        (f"{OWN}memory = '2G'", 2 * GIB, 2.0, (2 * GIB - 512 * MIB, 0.0)),
        (f"{OWN}cpus = 3.5", 512 * MIB, 3.5, (0, 1.5)),
        (f"{OWN}memory = '64M'\ncpus = 1", 64 * MIB, 1.0, (0, 0.0)),
        (f"{MEMORY}[verifier.environment]\ncpus = 2", 512 * MIB, 2.0, (0, 1.0)),
    ],
)
def test_what_is_reserved_beyond_the_agents_share(
    make_task: TaskMaker, toml: str, memory: int, cores: float, beside: tuple[int, float]
) -> None:
    task = read(make_task(f'schema_version = "1.1"\n{toml}\n'))
    assert task.verifier is not None
    spec = task.verifier.sandbox.spec
    assert (spec.memory_guarantee_bytes, spec.cpu_guarantee_cores) == (memory, cores)
    assert (task.spec.beside_memory_bytes, task.spec.beside_cpu_cores) == beside
    assert task.spec.memory_guarantee_bytes == 512 * MIB


def test_a_verifier_between_steps_is_reserved_beside_the_agent(make_task: TaskMaker) -> None:
    task = read(make_task(f"{SEPARATE}{STEP}verifier.environment.memory = '1G'\n", files=ONE))
    assert (task.spec.beside_memory_bytes, task.spec.beside_cpu_cores) == (GIB, 2.0)


@pytest.mark.parametrize(
    ("toml", "files", "image", "has_tests"),
    [
        (SEPARATE, {}, (None, "environment"), False),
        (SEPARATE, {"tests/Dockerfile": "FROM scratch\n"}, (None, "tests"), True),
        (f"{OWN}docker_image = 'a/b'", {}, ("a/b", None), True),
        (f"{OWN}docker_image = 'a/b'", {"tests/Dockerfile": "FROM x\n"}, ("a/b", None), True),
        (SEPARATE.replace("cpus", "docker_image = 'x/y'\ncpus"), {}, ("x/y", "environment"), False),
    ],
)
def test_images(
    make_task: TaskMaker,
    toml: str,
    files: dict[str, str],
    image: tuple[str | None, str | None],
    has_tests: bool,
) -> None:
    directory = make_task(toml, files=files)
    verifier = read(directory).verifier
    assert verifier is not None
    name, folder = image
    assert verifier.has_tests is has_tests
    assert verifier.sandbox.image.docker_image == name
    assert verifier.sandbox.image.build_context == (None if folder is None else directory / folder)


def test_a_steps_own_image_goes_before_the_tasks(make_task: TaskMaker) -> None:
    files = {**ONE, "steps/one/tests/Dockerfile": "FROM x\n", "tests/Dockerfile": "FROM y\n"}
    directory = make_task(f"{SEPARATE}{STEP}", files=files)
    (verifier,) = read(directory).verifiers
    assert verifier.sandbox.image.build_context == directory / "steps" / "one" / "tests"


def test_artifacts_and_commands_add_up(make_task: TaskMaker) -> None:
    toml = (
        "artifacts = ['/a/', 'b', { source = '/c', exclude = ['*.o'], destination = 'x' }]\n"
        f"{SEPARATE}[[verifier.collect]]\ncommand = 'x'\nservice = 'db'\nuser = 5\n"
        f"{STEP}artifacts = [{{ source = '/d', service = 'db' }}]\n"
        "[[steps.verifier.collect]]\ncommand = 'y'\ntimeout_sec = 3\n"
    )
    compose = {
        "environment/docker-compose.yaml": "services: {db: {image: x, mem_limit: 64m}}\n",
        "tests/Dockerfile": "FROM x\n",
    }
    task = read(make_task(toml, files={**ONE, **compose}))
    own = (Artifact("/a"), Artifact("/b"), Artifact("/c", ("*.o",)))
    assert task.artifacts == own
    assert task.steps[0].artifacts == (*own, Artifact("/d", service="db"))
    assert task.collect == (CollectCommand("x", "db", 60.0, "5"),)
    assert task.steps[0].collect == (*task.collect, CollectCommand("y", timeout_seconds=3.0))


@pytest.mark.parametrize(
    ("toml", "place", "fix"),
    [
        (f"{OWN}memory = '2Q'", "[verifier] environment.memory", "not a size"),
        (f"{OWN}memory_mb = 0", "[verifier] environment.memory_mb", "whole number of MB"),
        (f"{OWN}cpus = 0", "[verifier] environment.cpus", "CPU cores"),
        (f"{OWN}workdir = 'x'", "[verifier] environment.workdir", "absolute path"),
        (f"{OWN}docker_image = ' '", "[verifier] environment.docker_image", "empty"),
        (f"{OWN}docker_image = 3", "[verifier] environment.docker_image", "must be a string"),
        (f"{OWN}env = {{ A = '${{NO}}' }}", "[verifier] environment.env.A", "NO is not set"),
        (f"{OWN}healthcheck = {{}}", "[verifier] environment.healthcheck.command", "missing"),
        (f"{OWN}build_timeout_sec = 0", "[verifier] environment.build_timeout_sec", "seconds"),
        (
            f"{MEMORY}[verifier]\nenvironment_mode = 'shared'\nenvironment = {{}}",
            "[verifier] environment_mode",
            "disagrees with the environment",
        ),
        (
            f"{MEMORY}{STEP}verifier.environment.cpus = 'x'",
            "[[steps]] #1 verifier.environment.cpus",
            "CPU cores",
        ),
        (f"artifacts = 'x'\n{MEMORY}", "artifacts", "must be a list"),
        (f"artifacts = [3]\n{MEMORY}", "artifacts #1", "must be a table"),
        (f"artifacts = ['/a', '']\n{MEMORY}", "artifacts #2 source", "not empty"),
        (f"artifacts = ['/']\n{MEMORY}", "artifacts #1 source", "one file or folder"),
        (f"artifacts = ['/a/../b']\n{MEMORY}", "artifacts #1 source", "one file or folder"),
        (f"artifacts = [{{}}]\n{MEMORY}", "artifacts #1 source", "missing"),
        (
            f"artifacts = [{{ source = '/a', exclud = [] }}]\n{MEMORY}",
            "artifacts #1 exclud",
            "unknown key",
        ),
        (
            f"artifacts = [{{ source = '/a', exclude = 'x' }}]\n{MEMORY}",
            "artifacts #1 exclude",
            "list of patterns",
        ),
        (
            f"artifacts = [{{ source = 'a', service = 'db' }}]\n{MEMORY}",
            "artifacts #1 source",
            "not an absolute path",
        ),
        (
            f"artifacts = [{{ source = '/a', service = '-' }}]\n{MEMORY}",
            "artifacts #1 service",
            "name of a service",
        ),
        (f"{MEMORY}[verifier]\ncollect = ['x']", "[verifier] collect #1", "must be a table"),
        (f"{MEMORY}[[verifier.collect]]", "[verifier] collect #1 command", "missing"),
        (
            f"{MEMORY}[[verifier.collect]]\ncommand = 'x'\ntimeout_sec = 0",
            "[verifier] collect #1 timeout_sec",
            "number of seconds",
        ),
        (
            f"{MEMORY}[[verifier.collect]]\ncommand = 'x'\nuser = true",
            "[verifier] collect #1 user",
            "name or number",
        ),
        (
            f"{MEMORY}{STEP}[[steps.verifier.collect]]\ncommand = 3",
            "[[steps]] #1 verifier.collect #1 command",
            "text in quotes",
        ),
    ],
)
def test_mistakes(make_task: TaskMaker, toml: str, place: str, fix: str) -> None:
    message = error_of(make_task(toml, files=ONE))
    assert message.startswith(f"spike/task.toml: {place}: ")
    assert fix in message


def test_unknown_keys_of_a_verifiers_environment_are_named(make_task: TaskMaker) -> None:
    directory = make_task(f"{OWN}colour = 'red'\n[verifier.environment.healthcheck]\n"
                          "command = 'true'\nhue = 1\n")  # fmt: skip
    assert read_task(directory, host_environment={}).warnings == (
        "[verifier] environment.colour: unknown key, ignored",
        "[verifier] environment.healthcheck.hue: unknown key, ignored",
    )


def test_several_containers_for_the_tests_are_refused(make_task: TaskMaker) -> None:
    message = error_of(make_task(SEPARATE, files={"tests/docker-compose.yaml": "{}"}))
    assert message.startswith("spike/tests/docker-compose.yaml: ")
    assert "not supported yet" in message


def test_images_of_verifiers_are_built_as_the_tasks_is(make_task: TaskMaker) -> None:
    task = read(make_task(SEPARATE)).with_build("always")
    assert [item.image.build for item in task.sandboxes] == ["always", "always"]
