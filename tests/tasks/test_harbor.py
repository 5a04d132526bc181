"""What each field of each schema version becomes; malformed files are in test_harbor_malformed."""

from pathlib import Path
from typing import Any

import pytest
from task_maker import MEMORY, TaskMaker

from pytest_infranoise.model.task import Task
from pytest_infranoise.tasks.harbor import TaskReading, read_task
from pytest_infranoise.units import GIB, MIB


def read(directory: Path, **options: Any) -> TaskReading:
    return read_task(directory, **{"host_environment": {}, **options})


def task_of(make_task: TaskMaker, toml: str, **options: Any) -> Task:
    return read(make_task(toml), **options).task


def test_a_task_with_nothing_but_memory(make_task: TaskMaker) -> None:
    directory = make_task('schema_version = "1.4"\n[environment]\nmemory_mb = 96\n')
    reading = read(directory)
    task = reading.task
    assert reading.warnings == ()
    assert task.name == "spike"
    assert task.directory == directory
    assert task.instruction == "Do it.\n"
    assert task.solution == directory / "solution"
    assert task.tests == directory / "tests"
    assert task.image.build_context == directory / "environment"
    assert task.image.docker_image is None
    assert task.spec.memory_guarantee_bytes == task.spec.memory_limit_bytes == 96 * MIB
    assert task.spec.cpu_guarantee_cores is None
    assert task.spec.cpu_limit_cores is None
    assert task.agent_timeout_seconds is None
    assert task.verifier_timeout_seconds == 600
    assert task.build_timeout_seconds == 600
    assert task.environment == task.solution_environment == task.verifier_environment == {}
    assert (task.workdir, task.agent_user, task.verifier_user, task.leftovers) == (None,) * 4
    assert task.network is True
    assert task.notes == ()


def test_a_terminal_bench_2_file(make_task: TaskMaker) -> None:
    directory = make_task(
        """
version = "1.0"
[metadata]
author_name = "A"
difficulty = "hard"
tags = ["a", "b"]
expert_time_estimate_min = 60.0
[verifier]
timeout_sec = 900.0
[agent]
timeout_sec = 1200.0
[environment]
build_timeout_sec = 300.0
docker_image = "example/task:20251031"
cpus = 2
memory = "4G"
storage = "10G"
"""
    )
    reading = read(directory)
    task = reading.task
    assert task.spec.memory_limit_bytes == 4 * GIB
    assert task.spec.cpu_limit_cores == 2
    assert task.image.docker_image == "example/task:20251031"
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (1200, 900)
    assert task.build_timeout_seconds == 300
    assert reading.warnings == ()


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ('memory = "2G"', 2048 * MIB),
        ('memory = "2g"', 2048 * MIB),
        ('memory = "0.5G"', 512 * MIB),
        ('memory = "512M"', 512 * MIB),
        ('memory = "512Mi"', 512 * MIB),
        ('memory = "512MB"', 512 * MIB),
        ('memory = "512MiB"', 512 * MIB),
        ('memory = "524288K"', 512 * MIB),
        ('memory = "536870912"', 512 * MIB),
        ("memory = 536870912", 512 * MIB),
        ("memory_mb = 512", 512 * MIB),
        ("memory_mb = 512.0", 512 * MIB),
        ("memory_mb = '512'", 512 * MIB),
        ("memory_mb = '512.0'", 512 * MIB),
        ('memory = "2G"\nmemory_mb = 2048', 2048 * MIB),
    ],
)
def test_every_spelling_of_memory(make_task: TaskMaker, line: str, size: int) -> None:
    spec = task_of(make_task, f"[environment]\n{line}\n").spec
    assert spec.memory_guarantee_bytes == spec.memory_limit_bytes == size


@pytest.mark.parametrize("key", ["version", "schema_version"])
@pytest.mark.parametrize(
    ("version", "cores"),
    [("1.0", 1.0), ("1.1", 1.0), ("1.1.2", 1.0), ("1.2", None), ("1.3", None), ("1.4", None)],
)
def test_undeclared_cpus_in_every_schema_version(
    make_task: TaskMaker, key: str, version: str, cores: float | None
) -> None:
    task = task_of(make_task, f'{key} = "{version}"\n{MEMORY}')
    assert task.spec.cpu_guarantee_cores == task.spec.cpu_limit_cores == cores
    assert any("default of schema" in note for note in task.notes) == (cores is not None)


def test_a_file_without_version_is_read_as_the_newest(make_task: TaskMaker) -> None:
    assert task_of(make_task, MEMORY).spec.cpu_limit_cores is None


@pytest.mark.parametrize(
    ("line", "cores"), [("cpus = 4", 4), ("cpus = 0.25", 0.25), ('cpus = "1.5"', 1.5)]
)
def test_declared_cpus(make_task: TaskMaker, line: str, cores: float) -> None:
    task = task_of(make_task, f"{MEMORY}{line}\n", default_cpu_cores=8)
    assert task.spec.cpu_guarantee_cores == task.spec.cpu_limit_cores == cores
    assert task.notes == ()


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
def test_the_users_default_memory_is_used_and_noted(make_task: TaskMaker, version: str) -> None:
    task = task_of(make_task, f'version = "{version}"', default_memory_bytes=GIB)
    assert task.spec.memory_guarantee_bytes == task.spec.memory_limit_bytes == GIB
    assert task.notes[0] == "memory 1 GiB from infra_default_memory: the task declares none"


def test_a_declared_memory_beats_the_default(make_task: TaskMaker) -> None:
    task = task_of(make_task, MEMORY, default_memory_bytes=GIB)
    assert task.spec.memory_limit_bytes == 512 * MIB
    assert task.notes == ()


def test_the_users_default_cpus_are_used_and_noted(make_task: TaskMaker) -> None:
    task = task_of(make_task, MEMORY, default_cpu_cores=0.5)
    assert task.spec.cpu_guarantee_cores == task.spec.cpu_limit_cores == 0.5
    assert task.notes == ("cpus 0.5 from infra_default_cpus: the task declares none",)


@pytest.mark.parametrize(
    ("declared", "band", "memory", "cpus"),
    [
        ("memory_mb=512\ncpus=2", "", (512, 512), (2, 2)),
        ("memory_mb=512\ncpus=2", 'memory_limit="2G"', (512, 2048), (2, 2)),
        ("memory_mb=512\ncpus=2", 'memory_guarantee="256M"', (256, 512), (2, 2)),
        ("memory_mb=512", 'memory_guarantee="1G"\nmemory_limit="3G"', (1024, 3072), (None, None)),
        ("memory_mb=512\ncpus=2", "cpus_limit=4", (512, 512), (2, 4)),
        ("memory_mb=512\ncpus=2", "cpus_guarantee=0.5", (512, 512), (0.5, 2)),
        ("", 'memory_limit="1G"\ncpus_limit=1', (1024, 1024), (1, 1)),
        ("", 'memory_guarantee="1G"\ncpus_guarantee=1', (1024, 1024), (1, 1)),
        ("", 'memory_guarantee="1G"\nmemory_limit="2G"', (1024, 2048), (None, None)),
    ],
)
def test_the_declared_band(
    make_task: TaskMaker,
    declared: str,
    band: str,
    memory: tuple[int, int],
    cpus: tuple[float | None, float | None],
) -> None:
    toml = f"[environment]\n{declared}\n[metadata.infranoise]\n{band}\n"
    spec = task_of(make_task, toml, default_memory_bytes=GIB * 9).spec
    assert (spec.memory_guarantee_bytes // MIB, spec.memory_limit_bytes // MIB) == memory
    assert (spec.cpu_guarantee_cores, spec.cpu_limit_cores) == cpus


@pytest.mark.parametrize("value", ["keep", "kill"])
def test_leftovers(make_task: TaskMaker, value: str) -> None:
    toml = f'{MEMORY}[metadata.infranoise]\nleftovers = "{value}"\n'
    assert task_of(make_task, toml).leftovers == value


def test_users_workdir_and_timeouts(make_task: TaskMaker) -> None:
    task = task_of(
        make_task,
        MEMORY + 'workdir = "/srv"\nbuild_timeout_sec = 30\n'
        '[agent]\nuser = "agent"\ntimeout_sec = 12.5\n[verifier]\nuser = 1000\ntimeout_sec = 7\n',
    )
    assert task.workdir == "/srv"
    assert (task.agent_user, task.verifier_user) == ("agent", "1000")
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (12.5, 7)
    assert task.build_timeout_seconds == 30


NONE_AGENT = '[agent]\nnetwork_mode = "no-network"\n'
NONE_VERIFIER = '[verifier]\nnetwork_mode = "no-network"\n'
STEP = '[[steps]]\nname = "one"\n'


@pytest.mark.parametrize(
    ("lines", "network"),
    [
        ("", True),
        ("allow_internet = true", True),
        ("allow_internet = false", False),
        ('network_mode = "public"', True),
        ('network_mode = "no-network"', False),
        ('network_mode = "no-network"\nallow_internet = false', False),
        ('network_mode = "no-network"\n[agent]\nnetwork_mode = "no-network"', False),
        ('[verifier]\nnetwork_mode = "public"', True),
        (NONE_AGENT + NONE_VERIFIER, False),
        ('network_mode = "public"\n' + NONE_AGENT + NONE_VERIFIER, False),
        (
            'network_mode = "no-network"\n[agent]\nnetwork_mode = "public"\n'
            '[verifier]\nnetwork_mode = "public"',
            True,
        ),
        (NONE_AGENT + NONE_VERIFIER + STEP, False),
        (NONE_AGENT + STEP + 'verifier.network_mode = "no-network"', False),
        (NONE_AGENT + '[verifier]\nenvironment_mode = "separate"', False),
    ],
)
def test_network(make_task: TaskMaker, lines: str, network: bool) -> None:
    instruction = {"steps/one/instruction.md": "Do it.\n"}
    assert read(make_task(f"{MEMORY}{lines}\n", files=instruction)).task.network is network


@pytest.mark.parametrize(
    ("lines", "network"),
    [
        ("", True),
        ('network_mode = "no-network"', False),
        ('network_mode = "no-network"\nenvironment.network_mode = "public"', False),
        ('network_mode = "public"\nenvironment.network_mode = "no-network"', True),
    ],
)
def test_the_network_of_a_separate_verifier(
    make_task: TaskMaker, lines: str, network: bool
) -> None:
    separate = f'{MEMORY}[verifier]\nenvironment_mode = "separate"\n{lines}\n'
    task = task_of(make_task, separate)
    assert task.verifier is not None
    assert (task.network, task.verifier.sandbox.network) == (True, network)


def test_a_byte_order_mark_is_read_over(make_task: TaskMaker) -> None:
    directory = make_task()
    for name in ("task.toml", "instruction.md"):
        path = directory / name
        path.write_text(path.read_text(), encoding="utf-8-sig")
    assert read(directory).task.instruction == "Do it.\n"


def test_whole_numbers_in_other_spellings(make_task: TaskMaker) -> None:
    lines = "storage_mb = 10.0\ngpus = 0.0\n[environment.healthcheck]\ncommand = 'x'\nretries = '4'"
    task = task_of(make_task, f"{MEMORY}{lines}\n")
    assert task.storage_bytes == 10 * MIB
    assert task.healthcheck is not None
    assert task.healthcheck.retries == 4


def test_environment_values_and_templates(make_task: TaskMaker) -> None:
    task = task_of(
        make_task,
        """
[environment]
memory_mb = 64
[environment.env]
PLAIN = "a b"
FROM_HOST = "${SET}"
EMPTY_ON_HOST = "${EMPTY:-default}"
DEFAULT = "${UNSET:-a:-b}"
EMPTY_DEFAULT = "${UNSET:-}"
WITHIN = "x${SET}"
[verifier]
env = { V = "${SET}" }
[solution]
env = { S = "1" }
""",
        host_environment={"SET": "value", "EMPTY": ""},
    )
    assert task.environment == {
        "PLAIN": "a b",
        "FROM_HOST": "value",
        "EMPTY_ON_HOST": "",
        "DEFAULT": "a:-b",
        "EMPTY_DEFAULT": "",
        "WITHIN": "x${SET}",
    }
    assert task.verifier_environment == {"V": "value"}
    assert task.solution_environment == {"S": "1"}


def test_the_solutions_variables_are_only_needed_by_the_oracle(make_task: TaskMaker) -> None:
    toml = MEMORY + '[solution]\nenv = { KEY = "${UNSET}" }\n'
    assert task_of(make_task, toml, uses_solution=False).solution_environment == {}


def test_a_dockerfile_beside_an_image_is_kept_for_backends_without_images(
    make_task: TaskMaker,
) -> None:
    directory = make_task(f'{MEMORY}docker_image = "a/b:c"\n')
    image = read(directory).task.image
    assert (image.docker_image, image.build_context) == ("a/b:c", directory / "environment")


def test_an_image_needs_no_dockerfile(make_task: TaskMaker) -> None:
    directory = make_task(
        f'{MEMORY}docker_image = "a/b:c"\n', files={"environment/Dockerfile": None}
    )
    assert read(directory).task.image.build_context is None


def test_a_solution_is_optional(make_task: TaskMaker) -> None:
    assert read(make_task(files={"solution/solve.sh": None})).task.solution is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- harbor-canary GUID 1 -->\n\n# Title\n\nText\n", "# Title\n\nText\n"),
        ("# canary GUID 1\n# Canary again\n\nText", "Text"),
        ("\n\nText", "Text"),
        ("Text\n<!-- canary -->\n", "Text\n<!-- canary -->\n"),
        ("# A bird\n", "# A bird\n"),
    ],
)
def test_canary_lines_are_not_shown_to_agents(make_task: TaskMaker, text: str, told: str) -> None:
    assert read(make_task(files={"instruction.md": text})).task.instruction == told


def test_unknown_keys_are_named_once_each(make_task: TaskMaker) -> None:
    toml = (
        'colour = "red"\n[extra]\na = 1\nb = 2\n[agent]\npatience = 1\n[metadata]\nany = 1\n'
        "[environment]\nmemory_mb = 64\nmemory_gb = 1\n[task]\nname = 'a/b'\nanything = 1\n"
    )
    assert read(make_task(toml)).warnings == (
        "colour: unknown key, ignored",
        "extra: unknown key, ignored",
        "[agent] patience: unknown key, ignored",
        "[environment] memory_gb: unknown key, ignored",
    )


@pytest.mark.parametrize(
    ("toml", "files", "warning"),
    [
        (f'version = "1.7"\n{MEMORY}', {}, "schema_version 1.7 is newer than 1.4, read as 1.4"),
        (
            f'artifacts = ["/app/x"]\n{MEMORY}',
            {},
            "artifacts: not collected: only a separate verifier gets them",
        ),
    ],
)
def test_what_has_no_effect_here_is_said(
    make_task: TaskMaker, toml: str, files: dict[str, str], warning: str
) -> None:
    assert read(make_task(toml, files=files)).warnings == (warning,)


def test_every_documented_key_is_known(make_task: TaskMaker) -> None:
    toml = """
schema_version = "1.4"
source = "somewhere"
multi_step_reward_strategy = "mean"
steps = []
artifacts = []
[task]
name = "a/b"
version = "1"
description = ""
authors = [{ name = "A", email = "a@example.org" }]
keywords = []
[agent]
timeout_sec = 1
user = 0
network_mode = "public"
[verifier]
timeout_sec = 1
user = 0
env = {}
environment_mode = "shared"
network_mode = "public"
collect = []
[environment]
build_timeout_sec = 1
docker_image = "a"
os = "Linux"
cpus = 1
memory_mb = 64
gpus = 0
gpu_types = []
mcp_servers = []
env = {}
workdir = "/app"
network_mode = "public"
[solution]
env = {}
"""
    assert read(make_task(toml)).warnings == ()
