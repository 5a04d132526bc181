"""Looks at a study while it grows: a line for each, beside the journal.

Whoever looks at a growing study and may stop it then, looks more often than its error rate allows
for. So every unplanned look is noted, and every later report says how many there were.
"""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pytest_infranoise.study.journal import JOURNAL_NAME

LOOKS_NAME = "looks.jsonl"


def note_look(directory: Path) -> None:
    """Note that a growing study is looked at now; a folder that cannot be written is left alone.

    `journal_bytes` in the line says how far the study was. One without any record shows nothing,
    so that looking at it is no look.
    """
    with suppress(OSError):
        size = (directory / JOURNAL_NAME).stat().st_size
        if size:
            line = {"at": datetime.now(UTC).isoformat(), "journal_bytes": size}
            with (directory / LOOKS_NAME).open("a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")


def count_looks(directory: Path) -> int:
    """Return how many unplanned looks were noted; 0 if that cannot be read."""
    try:
        return (directory / LOOKS_NAME).read_bytes().count(b"\n")
    except OSError:
        return 0
