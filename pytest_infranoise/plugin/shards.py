"""`--infra-shard=2/5`: a part of a study, for machines that share the work without talking.

A shard is made of whole blocks (a task's sample in every parameter set), so that a task's sets stay
together in time and on one machine. Blocks are numbered the same everywhere, and dealt out like
cards: the shards' numbers of blocks differ by one at most, and every sample is spread over all.
"""

import re
from dataclasses import dataclass

from pytest_infranoise.errors import UsageError

MAXIMUM_SHARDS = 10_000


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `of` parts, numbered from 1."""

    number: int
    of: int

    def holds(self, block: int) -> bool:
        """Whether a block, numbered from 0, belongs to this shard."""
        return block % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def parse_shard(text: str, *, where: str) -> Shard:
    """Read `2/5`.

    Raises:
        UsageError: anything else.
    """
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text, re.ASCII)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of <= MAXIMUM_SHARDS:
        raise UsageError(
            f"{where}: {text!r} is not a valid shard; write NUMBER/OF, as in 2/5, with NUMBER "
            f"from 1 to OF and OF at most {MAXIMUM_SHARDS}"
        )
    return Shard(number, of)
