"""What an agent is told: `instruction.md`."""

import re
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.place import display_path

_CANARY = re.compile(r"(?:<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


def read_instruction(folder: Path) -> str:
    """Return the text without the canary lines that mark benchmark data.

    Raises:
        UsageError: there is no `instruction.md` in the folder, or it cannot be read.
    """
    path = folder / "instruction.md"
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    except FileNotFoundError:
        raise UsageError(
            f"{display_path(path)}: missing; a task needs an instruction for the agent"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{display_path(path)}: cannot be read: {error}") from None
    start = 0
    while start < len(lines) and _CANARY.fullmatch(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "".join(lines[start:])
