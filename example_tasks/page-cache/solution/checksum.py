"""Write 192 MiB to disk, read them back, and print their CRC-32; never more than 1 MiB is held."""

import os
import zlib
from pathlib import Path

PATH = Path("/app/large.bin")
CHUNK = b"0123456789abcdef" * 65_536
CHUNKS = 192
CHUNKS_PER_FLUSH = 16


def write() -> None:
    with PATH.open("wb") as file:
        for number in range(1, CHUNKS + 1):
            file.write(CHUNK)
            if number % CHUNKS_PER_FLUSH == 0:  # only what is on disk can be dropped from cache
                file.flush()
                os.fsync(file.fileno())


def read() -> int:
    checksum = 0
    with PATH.open("rb") as file:
        while chunk := file.read(len(CHUNK)):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


if __name__ == "__main__":
    write()
    print(read())
    PATH.unlink()
