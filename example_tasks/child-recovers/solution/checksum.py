"""Print the CRC-32 of the recording: `whole` in memory, or in `blocks`."""

import sys
import time
import zlib

BLOCK = bytes((i * i + 7 * i) % 251 for i in range(65_536))
BLOCKS = 1_600


def whole() -> int:
    recording = bytearray(BLOCK) * BLOCKS
    time.sleep(0.3)  # long enough for a watchdog that samples
    return zlib.crc32(recording)


def blocks() -> int:
    checksum = 0
    for _ in range(BLOCKS):
        checksum = zlib.crc32(BLOCK, checksum)
    return checksum


if __name__ == "__main__":
    print(whole() if sys.argv[1] == "whole" else blocks())
