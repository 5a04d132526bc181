"""What a task's format does to a container when it starts, before anyone works in it."""

from pathlib import Path

from pytest_infranoise.agents.shell import SH
from pytest_infranoise.backends.base import Placement, Sandbox
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.task import PreparedImage, Task

_IN_BACKGROUND = '"$@" </dev/null >/dev/null 2>&1 &'
_KEEP_UP = ("sh", "-c", "sleep infinity")
"""What the format's own harness gives an image's ENTRYPOINT to run."""


def begin(sandbox: Sandbox, task: Task, image: PreparedImage) -> None:
    """Start the image's ENTRYPOINT and put the task's files into the working folder.

    The entrypoint runs beside the sandbox's holder, as the image's user: what ends it is no end of
    the sandbox.

    Raises:
        SandboxError: `sandbox_start`, the files could not be put.
    """
    if image.entrypoint:
        sandbox.exec(
            [SH, "-c", _IN_BACKGROUND, "sh", *image.entrypoint, *_KEEP_UP],
            workdir=task.workdir,
            user=image.user,
        )
    if task.files is not None:
        lay_over(sandbox, task.files, working_folder(sandbox, task))


def working_folder(sandbox: Sandbox, task: Task) -> str:
    """Return the folder in which a task's commands run."""
    return task.workdir or sandbox.workdir


def lay_over(sandbox: Sandbox, files: Path, target: str) -> None:
    """Lay a host folder's contents over those of a folder.

    Raises:
        SandboxError: `sandbox_start`, they could not be put.
    """
    try:
        sandbox.place([Placement(target, files, over="all")])
    except SandboxError as error:
        if error.cause is not Cause.ENGINE:
            raise
        words = f"the files of {files.name}/ could not be put: {error}"
        raise SandboxError(Cause.SANDBOX_START, words) from error
