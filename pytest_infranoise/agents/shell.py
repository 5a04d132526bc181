"""Which shell runs what a task's author wrote: the one place where an interpreter is chosen.

The format's own harness runs everything in the task's container by `bash -c`. So a script without
an interpreter line is a bash script, and a healthcheck is a line of bash. An image without bash
cannot be used there at all; here its `sh` is taken, with a note in the record.

An agent may have been at work where a script runs. So an interpreter is named by an absolute path,
and is looked for only in the system folders of the image: a name that an agent has put on PATH, in
its own home say, never runs the tests as root.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_infranoise.backends.base import SHELL, Sandbox
from pytest_infranoise.model.task import MAIN_SERVICE, Task

SH = SHELL

_ENV = ("/usr/bin/env", "/bin/env")
_MAX_SCRIPT_BYTES = 1 << 20


def bash_command(sandbox: Sandbox, *arguments: str) -> list[str]:
    """Return the command of a bash with these arguments; of `sh` where the image has no bash."""
    return [sandbox.program("bash") or SH, *arguments]


def script_command(sandbox: Sandbox, path: str, text: str | None) -> list[str]:
    """Return the command that runs the script at `path`, as its own first line says.

    By bash where it has none. `text` is the script's, None for one that only the sandbox has.
    """
    if text is None:
        content = sandbox.read(path, max_bytes=_MAX_SCRIPT_BYTES) or b""
        text = content.decode("utf-8", "replace")
    words = _interpreter(text)
    if not words:
        return bash_command(sandbox, path)
    named = _named_by_env(words)
    found = sandbox.program(named[0]) if named else None
    return [found, *named[1:], path] if found else [*words, path]


def _interpreter(text: str) -> list[str]:
    """Return the program of a first line and its argument, which the kernel leaves in one piece."""
    if not text.startswith("#!"):
        return []
    return text[2:].partition("\n")[0].strip().split(maxsplit=1)


def _named_by_env(words: list[str]) -> list[str]:
    """Return the command that `env` is to look up on PATH; empty for any other interpreter."""
    if words[0] not in _ENV or len(words) == 1:
        return []
    named = words[1].removeprefix("-S ").split()
    is_plain = (
        named and "=" not in named[0] and not named[0].startswith("-") and "/" not in named[0]
    )
    return named if is_plain else []


def missing_bash(sandbox: Sandbox, task: Task) -> str | None:
    """Return a note where something of a task is meant for bash and its sandbox has none."""
    meant = next(_meant_for_bash(task), None)
    if meant is None or sandbox.program("bash") is not None:
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
