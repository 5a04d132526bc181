"""Exit codes: pytest's own where the meaning is the same."""

from enum import IntEnum


class Exit(IntEnum):
    """What the exit code of every command means; documented in docs/cli.md."""

    FINE = 0
    FINDING = 1
    INTERRUPTED = 2
    FAILED = 3
    USAGE = 4
    CLOSED_PIPE = 141
