"""Render a poster of 100 copies of a 1 MiB tile, and print its CRC-32."""

import time
import zlib

TILE = bytes(range(256)) * 4096
COPIES = 100


def main() -> None:
    time.sleep(0.2)  # small before the spike
    poster = bytearray(TILE) * COPIES
    time.sleep(0.3)  # long enough for a watchdog that samples
    checksum = zlib.crc32(poster)
    del poster
    print(checksum)  # and small after it


if __name__ == "__main__":
    main()
