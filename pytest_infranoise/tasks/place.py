"""How messages name a place in a task's files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


def display_path(path: Path) -> str:
    """Return `path` relative to the current directory when it is below it, else as it is."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return os.fspath(path)


@dataclass(frozen=True, slots=True)
class Place:
    """A TOML file; `key` names one key in it, table first, as it stands in the file.

    Keys are counted from the table at `within`, the top of the file by default.

    >>> Place("task.toml").key("environment", "env", "PORT")
    'task.toml: [environment] env.PORT'
    """

    file: str
    within: tuple[str | int, ...] = ()

    def key(self, *parts: str | int) -> str:
        """Return `FILE: [table] key` for the path of keys `parts`."""
        return f"{self.file}: {key_name((*self.within, *parts))}"

    def below(self, *parts: str | int) -> "Place":
        """Return the place of the table at `parts`, from which other keys are counted."""
        return Place(self.file, (*self.within, *parts))


def key_name(parts: Sequence[str | int]) -> str:
    """Return `[table] key.key` for a path of keys; a single part stands at the top level."""
    if len(parts) < 2:
        return ".".join(str(part) for part in parts)
    if parts[0] == "steps" and isinstance(parts[1], int):
        return f"[[steps]] #{parts[1] + 1} " + ".".join(str(part) for part in parts[2:])
    table = 2 if parts[0] == "metadata" and len(parts) > 2 else 1
    tables = ".".join(str(part) for part in parts[:table])
    return f"[{tables}] " + ".".join(str(part) for part in parts[table:])
