"""What a newcomer is told when a run did something else than was meant."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.model.outcome import Phase
from pytest_infranoise.plugin.isolation import task_file_of
from pytest_infranoise.report.model import one_line

_DEPTH = 2
_LOOKED_AT = 2000
_EXIT_CODES = {127: "was not found", 126: "could not be run"}
_NEARLY_ALL = 0.8

DEADLINE_NOTE = "passed although commands were ended by their deadline"
"""How the note of a marked test's record begins whose assertions did not mind."""


def uncollected_hint(config: pytest.Config) -> str | None:
    """Return what to type where a run without a sweep option met folders of tasks alone."""
    base = config.invocation_params.dir
    for argument in config.args:
        path = base / argument.split("::")[0]
        number = len(_task_folders(path if path.is_dir() else path.parent))
        if number:
            shown = os.path.relpath(path, base)
            folders = "1 task folder" if number == 1 else f"{number} task folders"
            return (
                f"infranoise: {folders} in {shown} did not run, since no sweep option was given; "
                f"type: pytest {shown} --infra-multipliers=1,3,uncapped"
            )
    return None


def no_task_hint(config: pytest.Config) -> str:
    """Return where a sweep found no task folder."""
    places = " or ".join(argument.split("::")[0] for argument in config.args)
    return f"infranoise: no task folder (task.toml or task.yaml) below {places}"


def _task_folders(folder: Path) -> list[Path]:
    """Return the folders with a task, here and a few levels below; the search is bounded."""
    found: list[Path] = []
    ahead, looked_at = [(folder, 0)], 0
    while ahead and looked_at < _LOOKED_AT:
        place, depth = ahead.pop()
        looked_at += 1
        if task_file_of(place) is not None:
            found.append(place)
        elif depth < _DEPTH:
            with suppress(OSError):
                inside = [Path(item.path) for item in os.scandir(place) if item.is_dir()]
                ahead += [(item, depth + 1) for item in inside if not item.name.startswith(".")]
    return found


def agent_lines(records: Sequence[Mapping[str, Any]], agent: str) -> Iterator[str]:
    """Say so where the agent's command did not start in (nearly) every trial."""
    codes = [
        phase["exit_code"]
        for record in records
        for phase in record["phases"]
        if phase["phase"] == Phase.AGENT
    ]
    for code, words in _EXIT_CODES.items():
        number = codes.count(code)
        if number and number >= _NEARLY_ALL * len(codes):
            yield (
                f"the agent's command {words} in the sandbox in {number} of {len(codes)} trial(s) "
                f"(exit code {code}): look at --infra-agent and --infra-agent-files, agent {agent}"
            )


def deadline_lines(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say so where marked tests passed although the deadline ended a command of theirs."""
    passed = [
        record["task"]
        for record in records
        if any(note.startswith(DEADLINE_NOTE) for note in record["notes"])
    ]
    if passed:
        names = ", ".join(dict.fromkeys(one_line(name, 80) for name in passed))
        yield (
            f"in {len(passed)} passed trial(s) a command was ended by its deadline, and the test "
            f"still passed (assert exit_code or timed_out): {names}"
        )
