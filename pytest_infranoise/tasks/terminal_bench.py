"""Task directories of Terminal-Bench 1 (`task.yaml`), read into `Task`.

The format's harness types commands into a terminal; here they are run by `bash`. Everything else
is as there: `run-tests.sh` and the contents of `tests/` in `/tests`, and the verdict from what
pytest prints.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import Grader, Task
from pytest_infranoise.tasks.client_service import read_client
from pytest_infranoise.tasks.compose import with_compose
from pytest_infranoise.tasks.digest import directory_digest
from pytest_infranoise.tasks.files import TERMINAL_BENCH_FILE
from pytest_infranoise.tasks.harbor import TaskReading
from pytest_infranoise.tasks.marked_block import BY_PARSER
from pytest_infranoise.tasks.place import display_path
from pytest_infranoise.tasks.pytest_summary import PytestSummaryGrader
from pytest_infranoise.tasks.resources import ResourceDefaults
from pytest_infranoise.tasks.scripts import check_line_ends
from pytest_infranoise.tasks.undeclared import undeclared_spec
from pytest_infranoise.tasks.yaml_file import load_yaml, mapping_of, shown, text_of
from pytest_infranoise.units import parse_seconds

DEFAULT_AGENT_SECONDS = 360.0
DEFAULT_TEST_SECONDS = 60.0

_KNOWN = frozenset({
    "instruction", "author_name", "author_email", "difficulty", "category", "tags", "parser_name",
    "max_agent_timeout_sec", "max_test_timeout_sec", "run_tests_in_same_shell",
    "disable_asciinema", "estimated_duration_sec", "expert_time_estimate_min",
    "junior_time_estimate_min",
})  # fmt: skip
_KEYSTROKE = re.compile(
    r"[CM]-\S+|\^\S|Enter|Escape|Tab|BTab|Space|BSpace|Up|Down|Left|Right|Home|End|PageUp|PageDown"
    r"|PPage|NPage|DC|IC|F\d{1,2}"
)
"""What the format's terminal takes for a key and not for text."""
_RUN_TESTS = "infranoise-run-tests.sh"
"""A name that no file of a task has."""
_BASH = 'exec "${{BASH:-bash}}" {path}\n'
"""By the bash that runs this, for want of an interpreter line; PATH may be the agent's to fill."""
_SHELL_STATE = "/logs/agent/.infranoise-shell"
"""Where a shell that was typed into leaves its folder and its variables for the tests."""
_TYPED = """#!/bin/bash
trap '{{ export -p; printf "cd -- %q\\n" "$PWD"; }} >{state}' EXIT
. {path}
"""
_IN_THE_SHELL = """#!/bin/bash
if [ -r {state} ]; then . {state}; fi 2>/dev/null
exec bash {path}
"""


def read_terminal_bench(
    directory: Path,
    *,
    defaults: ResourceDefaults,
    host_environment: Mapping[str, str],
    uses_solution: bool = True,
) -> TaskReading:
    """Read one task directory; its name is the folder's.

    Args:
        directory: the folder that holds `task.yaml`.
        defaults: what the task gets, since the format has no resources.
        host_environment: where variables of the compose file are looked up.
        uses_solution: whether the oracle runs; otherwise a solution of keystrokes is left out.

    Raises:
        UsageError: one line that names the file, the key and the fix.
    """
    path = directory / TERMINAL_BENCH_FILE
    where = display_path(path)
    document = mapping_of(load_yaml(path, where), where)
    grader, same_shell = _grader(document, where), _is_same_shell(document, where)
    spec, notes = undeclared_spec(defaults, where=where, form="Terminal-Bench 1")
    scripts = ["run-tests.sh"] + ["solution.sh"] * uses_solution
    check_line_ends(directory / name for name in scripts)
    client = read_client(directory, host_environment, defaults.memory_bytes)
    tests = directory / "tests"
    task = Task(
        name=directory.name,
        digest=directory_digest(directory),
        spec=spec,
        image=client.image,
        directory=directory,
        instruction=text_of(document.get("instruction"), f"{where}: instruction"),
        tests=tests if tests.is_dir() else None,
        agent_timeout_seconds=_seconds(
            document, "max_agent_timeout_sec", DEFAULT_AGENT_SECONDS, where
        ),
        verifier_timeout_seconds=_seconds(
            document, "max_test_timeout_sec", DEFAULT_TEST_SECONDS, where
        ),
        environment=client.environment,
        workdir=client.workdir,
        agent_user=client.user,
        # The harness's shell for tests is root's, whoever the container's user is.
        verifier_user=client.user if same_shell else "root",
        notes=notes,
        solution_files=_solution(directory, uses_solution, same_shell=same_shell),
        test_files={
            _RUN_TESTS: (_IN_THE_SHELL if same_shell else _BASH).format(
                path="/tests/run-tests.sh", state=_SHELL_STATE
            ),
            "run-tests.sh": _text(directory / "run-tests.sh"),
        },
        test_script=_RUN_TESTS,
        grader=grader,
    )
    if client.compose is not None:
        task = with_compose(task, client.compose)
    unknown = (f"{key}: unknown key, ignored" for key in document if key not in _KNOWN)
    return TaskReading(task, (*unknown, *client.warnings))


def _grader(document: Mapping[str, Any], where: str) -> Grader:
    """Return what judges the tests' output."""
    parser = document.get("parser_name", "pytest")
    if parser == "pytest":
        return PytestSummaryGrader()
    if parser in list(BY_PARSER):  # of any type
        return BY_PARSER[parser]
    known = ", ".join(("pytest", *BY_PARSER))
    raise UsageError(
        f"{where}: parser_name: {shown(parser)} is not supported, only {known} are; leave this "
        "task out"
    )


def _is_same_shell(document: Mapping[str, Any], where: str) -> bool:
    """Whether the tests run in the shell in which the agent was started."""
    value = document.get("run_tests_in_same_shell")
    if value not in (None, True, False):
        raise UsageError(
            f"{where}: run_tests_in_same_shell: must be true or false, not {shown(value)}"
        )
    return bool(value)


def _seconds(document: Mapping[str, Any], key: str, default: float, where: str) -> float:
    return parse_seconds(document.get(key, default), where=f"{where}: {key}")


def _text(path: Path) -> str:
    try:
        # Not read_text: it would change the line ends.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"{display_path(path)}: missing; a task without it cannot be verified"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{display_path(path)}: cannot be read: {error}") from None


def _solution(directory: Path, uses_solution: bool, *, same_shell: bool) -> dict[str, str]:
    """Return the files of the reference solution, `solution.sh` before `solution.yaml`.

    The commands of `solution.yaml` are typed, so with `same_shell` the tests see what they left of
    their shell; `solution.sh` runs in a shell of its own.
    """
    runs = _BASH
    if (directory / "solution.sh").is_file():
        script = _text(directory / "solution.sh")
    elif uses_solution and (directory / "solution.yaml").is_file():
        script = "\n".join(_commands(directory / "solution.yaml")) + "\n"
        runs = _TYPED if same_shell else _BASH
    else:
        return {}
    solve = runs.format(path="/solution/solution.sh", state=_SHELL_STATE)
    return {"solve.sh": solve, "solution.sh": script}


def _commands(path: Path) -> Iterator[str]:
    """Yield the commands of a `solution.yaml`; they share one shell, as in a terminal.

    Raises:
        UsageError: it is malformed, or types into a program that is not the shell.
    """
    where = display_path(path)
    items = load_yaml(path, where)
    if not isinstance(items, list):
        raise UsageError(f"{where}: must be a list of commands, not {shown(items)}")
    for number, item in enumerate(items, start=1):
        place = f"{where}: #{number}"
        entry = mapping_of(item, place)
        command = text_of(entry.get("command"), f"{place} command")
        if entry.get("append_enter", True) is not True or _KEYSTROKE.fullmatch(command.strip()):
            raise UsageError(
                f"{place} command: {shown(command)} is typed into a program, which is not "
                "supported; write a solution.sh, or choose another --infra-agent"
            )
        yield command
