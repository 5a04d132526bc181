"""What is asked of a task's shell scripts before anything runs."""

from collections.abc import Iterable
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.place import display_path

_MAX_LINE = 4096


def check_line_ends(paths: Iterable[Path]) -> None:
    """Refuse a script whose first line ends as on Windows: no shell on Linux runs it.

    The kernel takes the carriage return for a part of the interpreter's name, and a shell for one
    of each command.

    Raises:
        UsageError: one line that names the script and the fix.
    """
    for path in paths:
        try:
            with path.open("rb") as file:
                line = file.readline(_MAX_LINE)
        except OSError:  # not there, or refused elsewhere
            continue
        if line.endswith(b"\r\n"):
            shown = display_path(path)
            raise UsageError(
                f"{shown}: its lines end in CRLF, as on Windows, so that no shell on Linux runs "
                f"it; convert it: sed -i 's/\\r$//' {shown}"
            )
