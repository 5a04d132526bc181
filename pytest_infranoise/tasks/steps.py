"""`[[steps]]` and `healthcheck` of a `task.toml`, read into `TaskStep` and `Healthcheck`."""

import math
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import Healthcheck, TaskStep
from pytest_infranoise.tasks.artifacts import read_artifacts, read_collect
from pytest_infranoise.tasks.instruction import read_instruction
from pytest_infranoise.tasks.place import Place, display_path
from pytest_infranoise.tasks.schema import HealthcheckTable, StepTable, TaskFile
from pytest_infranoise.tasks.templates import resolve
from pytest_infranoise.units import parse_seconds

_NO_FOLDER_NAME = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')


def read_steps(
    file: TaskFile, directory: Path, place: Place, host_environment: Mapping[str, str]
) -> tuple[TaskStep, ...]:
    """Return a task's steps in order; none for a task that is worked on in one go.

    What a step leaves out is the task's own: the agent's time and user, the verifier's user and
    variables, a solution. Its verifier's time is 600 s unless the step says otherwise.

    Raises:
        UsageError: one line that names the file, the step and the key.
    """
    _check_names(file.steps, place)
    return tuple(
        _step(file, number, directory, place, host_environment) for number in range(len(file.steps))
    )


def _check_names(steps: list[StepTable], place: Place) -> None:
    seen: dict[str, int] = {}
    for number, step in enumerate(steps):
        name, where = step.name, place.key("steps", number, "name")
        if not name.strip() or name[-1] in ". " or _NO_FOLDER_NAME.search(name):
            raise UsageError(f"{where}: {name!r} cannot be a folder's name below steps/; rename it")
        key = unicodedata.normalize("NFC", name).casefold()
        if key in seen:
            raise UsageError(f"{where}: {name!r} is step #{seen[key] + 1} already; rename one")
        seen[key] = number


def _step(
    file: TaskFile,
    number: int,
    directory: Path,
    place: Place,
    host_environment: Mapping[str, str],
) -> TaskStep:
    table = file.steps[number]
    folder = directory / "steps" / table.name

    def seconds(value: Any, part: str) -> float:
        return parse_seconds(value, where=place.key("steps", number, part, "timeout_sec"))

    agent_timeout = table.agent.timeout_sec
    if agent_timeout is not None:
        agent_timeout = seconds(agent_timeout, "agent")
    elif file.agent.timeout_sec is not None:
        agent_timeout = parse_seconds(
            file.agent.timeout_sec, where=place.key("agent", "timeout_sec")
        )
    variables = {**file.verifier.env, **table.verifier.env}
    files = folder / "workdir"
    return TaskStep(
        name=table.name,
        instruction=read_instruction(folder),
        tests=_tests(directory, folder),
        solution=_solution(directory, folder),
        files=files if files.is_dir() else None,
        agent_timeout_seconds=agent_timeout,
        verifier_timeout_seconds=seconds(table.verifier.timeout_sec, "verifier"),
        verifier_environment=resolve(variables, host_environment, table="verifier", place=place),
        agent_user=_user(table.agent.user, file.agent.user),
        verifier_user=_user(table.verifier.user, file.verifier.user),
        min_rewards=_min_rewards(table.min_reward, place, number),
        healthcheck=read_healthcheck(table.healthcheck, place, "steps", number, "healthcheck"),
        artifacts=(
            *read_artifacts(file.artifacts, place),
            *read_artifacts(table.artifacts, place.below("steps", number)),
        ),
        collect=(
            *read_collect(file.verifier.collect, place.below("verifier")),
            *read_collect(table.verifier.collect, place.below("steps", number, "verifier")),
        ),
    )


def _tests(directory: Path, folder: Path) -> tuple[Path, ...]:
    """Return the task's tests with the step's own over them."""
    found = tuple(path for path in (directory / "tests", folder / "tests") if path.is_dir())
    if not any((path / "test.sh").is_file() for path in found):
        raise UsageError(
            f"{display_path(folder / 'tests' / 'test.sh')}: missing, and so is tests/test.sh; a "
            "step without either cannot be verified"
        )
    return found


def _solution(directory: Path, folder: Path) -> Path | None:
    own = folder / "solution"
    solution = own if own.is_dir() else directory / "solution"
    return solution if (solution / "solve.sh").is_file() else None


def _user(own: str | int | None, tasks: str | int | None) -> str | None:
    user = tasks if own is None else own
    return None if user is None else str(user)


def _min_rewards(value: Any, place: Place, number: int) -> dict[str, float]:
    if value is None:
        return {}
    named = value if isinstance(value, dict) else {"reward": value}
    for reward in named.values():
        is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
        if not (is_number and math.isfinite(reward)):
            where = place.key("steps", number, "min_reward")
            raise UsageError(
                f"{where}: {reward!r} is not a number; write one, or a table with one per reward"
            )
    return {name: float(reward) for name, reward in named.items()}


def read_healthcheck(
    table: HealthcheckTable | None, place: Place, *key: str | int
) -> Healthcheck | None:
    """Return a healthcheck; `key` is where the table stands in the file.

    Raises:
        UsageError: one line that names the file and the key.
    """
    if table is None:
        return None

    def seconds(name: str) -> float:
        value, where = getattr(table, name), place.key(*key, name)
        # A pause or a start period may well be none at all.
        is_none = not isinstance(value, bool) and value == 0 and name != "timeout_sec"
        return 0.0 if is_none else parse_seconds(value, where=where)

    if table.command is None or not table.command.strip():
        raise UsageError(f"{place.key(*key, 'command')}: missing; write a shell command")
    if table.retries < 1:
        where = place.key(*key, "retries")
        raise UsageError(f"{where}: {table.retries} is less than 1")
    return Healthcheck(
        command=table.command,
        interval_seconds=seconds("interval_sec"),
        timeout_seconds=seconds("timeout_sec"),
        start_period_seconds=seconds("start_period_sec"),
        start_interval_seconds=seconds("start_interval_sec"),
        retries=table.retries,
    )
