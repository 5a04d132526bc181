"""Count distinct numbers with a table of one byte for every possible number."""

import time
from pathlib import Path

POSSIBLE_NUMBERS = 335_544_320


def main() -> None:
    table = bytearray(b".") * POSSIBLE_NUMBERS  # filled, so every page is really there
    with Path("/app/numbers.txt").open() as lines:
        for line in lines:
            table[int(line)] = ord("x")
    time.sleep(0.3)  # long enough for a watchdog that samples
    print(table.count(b"x"))


if __name__ == "__main__":
    main()
