"""The end of a step's output, in bounded memory."""

from pytest_infranoise.backends.base import OUTPUT_TAIL_BYTES


class OutputTail:
    """Keeps the last `capacity` bytes of what is added, and counts all of it."""

    def __init__(self, capacity: int = OUTPUT_TAIL_BYTES) -> None:
        self.capacity = capacity
        self.total_bytes = 0
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Append output as it arrives."""
        self.total_bytes += len(data)
        self._kept += data[-self.capacity :]
        if len(self._kept) > 4 * self.capacity:  # trim now and then, not for every small piece
            del self._kept[: -self.capacity]

    @property
    def is_truncated(self) -> bool:
        """Whether anything was dropped."""
        return self.total_bytes > self.capacity

    @property
    def content(self) -> bytes:
        """The kept bytes."""
        return bytes(self._kept[-self.capacity :])

    @property
    def text(self) -> str:
        """The kept bytes as UTF-8 with replacement; a character cut at the front is left out."""
        content = self.content
        start = 0
        while self.is_truncated and start < min(3, len(content)) and content[start] >> 6 == 0b10:
            start += 1
        return content[start:].decode("utf-8", "replace")
