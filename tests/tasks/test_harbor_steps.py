"""Tasks of several steps, healthchecks and disk space, as they are read."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from task_maker import MEMORY, TaskMaker

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import Healthcheck
from pytest_infranoise.tasks.harbor import TaskReading, read_task
from pytest_infranoise.units import GIB, MIB

NO_ROOT = {"instruction.md": None, "tests/test.sh": None, "solution/solve.sh": None}
ONE = {"steps/one/instruction.md": "One.\n", "steps/one/tests/test.sh": "true\n"}
TWO = {"steps/two/instruction.md": "Two.\n", "steps/two/tests/test.sh": "true\n"}


def read(directory: Path, host: Mapping[str, str] | None = None) -> TaskReading:
    return read_task(directory, host_environment=host or {})


def test_a_task_of_two_steps(make_task: TaskMaker) -> None:
    toml = f"""
multi_step_reward_strategy = "final"
{MEMORY}
[agent]
timeout_sec = 100
user = "worker"
[verifier]
timeout_sec = 50
user = "judge"
env = {{ A = "task", B = "task" }}
[[steps]]
name = "one"
min_reward = 0.5
artifacts = ["/app/out"]
[[steps]]
name = "two"
min_reward = {{ quality = 1, reward = 0.25 }}
agent = {{ timeout_sec = 7, user = 0 }}
verifier = {{ timeout_sec = 9, user = "other", env = {{ B = "step", C = "${{HOST}}" }} }}
[steps.healthcheck]
command = "true"
"""
    own = {
        "steps/one/solution/solve.sh": "true\n",
        "steps/one/workdir/setup.sh": "true\n",
        "steps/two/solution/solve.sh": "true\n",
    }
    directory = make_task(toml, files={**NO_ROOT, **ONE, **TWO, **own})
    reading = read(directory, {"HOST": "value"})
    task = reading.task
    first, second = task.steps
    assert reading.warnings == ("artifacts: not collected: only a separate verifier gets them",)
    assert task.reward_strategy == "final"
    assert (task.instruction, task.solution) == ("One.\n", None)
    assert (first.name, first.instruction) == ("one", "One.\n")
    assert first.tests == (directory / "steps" / "one" / "tests",)
    assert first.solution == directory / "steps" / "one" / "solution"
    assert first.files == directory / "steps" / "one" / "workdir"
    assert (first.agent_timeout_seconds, first.agent_user) == (100, "worker")
    assert (first.verifier_timeout_seconds, first.verifier_user) == (600, "judge")
    assert first.verifier_environment == {"A": "task", "B": "task"}
    assert first.min_rewards == {"reward": 0.5}
    assert first.healthcheck is None
    assert second.files is None
    assert (second.agent_timeout_seconds, second.agent_user) == (7, "0")
    assert (second.verifier_timeout_seconds, second.verifier_user) == (9, "other")
    assert second.verifier_environment == {"A": "task", "B": "step", "C": "value"}
    assert second.min_rewards == {"quality": 1, "reward": 0.25}
    assert second.healthcheck == Healthcheck("true")


def test_a_step_shares_tests_and_solution_of_the_task(make_task: TaskMaker) -> None:
    files = {"steps/one/instruction.md": "1\n", "steps/one/tests/data.txt": "x"}
    directory = make_task(f"{MEMORY}[[steps]]\nname = 'one'\n", files=files)
    (step,) = read(directory).task.steps
    assert step.tests == (directory / "tests", directory / "steps" / "one" / "tests")
    assert step.solution == directory / "solution"


def test_a_steps_own_solution_without_a_script_hides_the_tasks(make_task: TaskMaker) -> None:
    files = {**ONE, "steps/one/solution/notes.txt": "x"}
    directory = make_task(f"{MEMORY}[[steps]]\nname = 'one'\n", files=files)
    assert read(directory).task.steps[0].solution is None


def test_the_mean_is_the_strategy_that_goes_without_saying(make_task: TaskMaker) -> None:
    directory = make_task(f"{MEMORY}[[steps]]\nname = 'one'\n", files=ONE)
    assert read(directory).task.reward_strategy == "mean"


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({}, "steps/one/instruction.md"),
        (
            {"steps/one/instruction.md": "1\n", "tests/test.sh": None},
            "steps/one/tests/test.sh",
        ),
    ],
)
def test_a_step_without_its_files(
    make_task: TaskMaker, files: dict[str, str | None], place: str
) -> None:
    directory = make_task(f"{MEMORY}[[steps]]\nname = 'one'\n", files=files)
    with pytest.raises(UsageError) as caught:
        read(directory)
    assert str(caught.value).startswith(f"spike/{place}: missing")


def test_unknown_keys_of_steps_and_healthchecks_are_named(make_task: TaskMaker) -> None:
    toml = f"""{MEMORY}
healthcheck = {{ command = "true", every = 1 }}
[[steps]]
name = "one"
colour = "red"
agent = {{ mood = "good" }}
verifier = {{ mood = "bad" }}
healthcheck = {{ command = "true", often = true }}
"""
    assert read(make_task(toml, files=ONE)).warnings == (
        "[environment] healthcheck.every: unknown key, ignored",
        "[[steps]] #1 colour: unknown key, ignored",
        "[[steps]] #1 agent.mood: unknown key, ignored",
        "[[steps]] #1 verifier.mood: unknown key, ignored",
        "[[steps]] #1 healthcheck.often: unknown key, ignored",
    )


def test_a_healthcheck_and_its_defaults(make_task: TaskMaker) -> None:
    bare = make_task(f"{MEMORY}[environment.healthcheck]\ncommand = 'true'\n")
    assert read(bare).task.healthcheck == Healthcheck("true", 5, 30, 0, 5, 3)
    full = make_task(
        f"{MEMORY}[environment.healthcheck]\ncommand = 'x'\ninterval_sec = 0\ntimeout_sec = 2\n"
        "start_period_sec = 3.5\nstart_interval_sec = 0.5\nretries = 7\n"
    )
    assert read(full).task.healthcheck == Healthcheck("x", 0, 2, 3.5, 0.5, 7)


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("", None),
        ('storage = "10G"', 10 * GIB),
        ("storage_mb = 512", 512 * MIB),
        ('storage = "1G"\nstorage_mb = 1024', GIB),
    ],
)
def test_declared_disk_space(make_task: TaskMaker, line: str, size: int | None) -> None:
    reading = read(make_task(f"{MEMORY}{line}\n"))
    assert reading.task.storage_bytes == size
    assert reading.warnings == ()  # whether it can be limited is the engine's to say
