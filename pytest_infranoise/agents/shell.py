"""Which shell runs what a task's author wrote: the one place where an interpreter is chosen.

The format's own harness runs everything in the task's container by `bash -c`. So a script without
an interpreter line is a bash script, and a healthcheck is a line of bash. An image without bash
cannot be used there at all; here its `sh` is taken, with a note in the record.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_infranoise.backends.base import Sandbox
from pytest_infranoise.model.task import MAIN_SERVICE, Task

SH = "/bin/sh"
BASHES = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
"""Absolute, since an agent may write into a folder of PATH."""

_FIND = f"for bash in {' '.join(BASHES)}; do [ ! -x $bash ] || exec $bash"
_BY_BASH = f'{_FIND} "$@"; done; exec {SH} "$@"'


def bash_command(*arguments: str) -> list[str]:
    """Return the command of a bash with these arguments; of `sh` where the image has no bash."""
    return [SH, "-c", _BY_BASH, "sh", *arguments]


def script_command(path: str, *, output_path: str | None = None) -> list[str]:
    """Return the command that runs a script by its interpreter line, by bash where it has none.

    By `exec`, so that what is killed is the script and not a shell around it. With `output_path`
    stdout and stderr go there.
    """
    redirect = f" >{output_path} 2>&1" if output_path else ""
    return bash_command("-c", f"[ -x {path} ] || chmod +x {path}; exec {path}{redirect}")


def missing_bash(sandbox: Sandbox, task: Task) -> str | None:
    """Return a note where something of a task is meant for bash and its sandbox has none."""
    meant = next(_meant_for_bash(task), None)
    if meant is None or sandbox.exec([SH, "-c", f"{_FIND} -c :; done; exit 1"]).exit_code == 0:
        return None
    return f"{meant} is meant for bash, which the image does not have: run by {SH}"


def _meant_for_bash(task: Task) -> Iterator[str]:
    if task.healthcheck is not None:
        yield "the healthcheck"
    if any(item.service == MAIN_SERVICE for item in task.collect):
        yield "[[verifier.collect]]"
    yield from _without_interpreter(_scripts(task))


def _scripts(task: Task) -> Iterator[Path]:
    for folder, name in ((task.solution, "solve.sh"), (task.tests, task.test_script)):
        if folder is not None:
            yield folder / name
    for step in task.steps:
        yield from (folder / "test.sh" for folder in step.tests)
        if step.solution is not None:
            yield step.solution / "solve.sh"


def _without_interpreter(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            with path.open("rb") as file:
                if file.read(2) != b"#!":
                    yield f"{path.name}, without an interpreter line,"
        except OSError:
            continue
