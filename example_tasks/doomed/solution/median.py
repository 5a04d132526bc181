"""Mark values in a table of 100 MB; wrong on purpose, since the first mark is the minimum."""

import time
from pathlib import Path

POSSIBLE_VALUES = 100_000_000


def main() -> None:
    table = bytearray(b".") * POSSIBLE_VALUES  # filled, so every page is really there
    with Path("/app/values.txt").open() as lines:
        for line in lines:
            table[int(line)] = ord("x")
    time.sleep(0.3)  # long enough for a watchdog that samples
    print(table.index(b"x"))


if __name__ == "__main__":
    main()
