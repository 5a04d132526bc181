"""One request in the ledger: an empty file whose name says everything."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Self

from pytest_infranoise.errors import InfranoiseError

WAITING = "w"
OPEN = "o"


@dataclass(frozen=True, slots=True)
class Entry:
    """A request with its owner: `pid` and when that process was `born` (ticks since boot).

    `ticket` orders the requests, `nonce` tells apart two that are alike in everything else.
    """

    ticket: int
    state: str
    pid: int
    born: int
    memory_bytes: int
    microcores: int
    nonce: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return (
            f"{self.ticket:012d}.{self.state}.{self.pid}.{self.born}"
            f".{self.memory_bytes}.{self.microcores}.{self.nonce}"
        )

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the entry that a file name holds; None for a file that is not ours."""
        parts = name.split(".")
        if len(parts) != 7 or parts[1] not in (WAITING, OPEN):
            return None
        numbers = [part for position, part in enumerate(parts[:6]) if position != 1]
        if not all(part.isascii() and part.isdigit() for part in numbers):
            return None
        ticket, pid, born, memory, cores = map(int, numbers)
        return cls(ticket, parts[1], pid, born, memory, cores, parts[6])

    def opened(self) -> Self:
        """The same request once it is admitted."""
        return replace(self, state=OPEN)


def birth_of(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None if it is gone.

    A killed process that nobody has waited for yet is gone: it holds nothing any more.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the command before it may hold anything
    return None if fields[0] in "ZXx" else int(fields[19])


@cache
def birth_of_living(pid: int) -> int:
    """Return `birth_of` this very process, which must be there."""
    born = birth_of(pid)
    if born is None:
        raise InfranoiseError("admission: /proc does not show this process; is /proc mounted?")
    return born
