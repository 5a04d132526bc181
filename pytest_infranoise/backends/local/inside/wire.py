"""Messages between the owner and the holder: a length, then marshalled builtins.

Both ends are the same interpreter and trust each other, so `marshal` is safe here, carries bytes,
and saves the holder the import of a codec.
"""

import marshal
import socket
from typing import Any

_LENGTH_BYTES = 8


def pack(message: Any) -> bytes:
    """Return a message as it goes over a stream."""
    body = marshal.dumps(message)
    return len(body).to_bytes(_LENGTH_BYTES, "little") + body


def receive(connection: socket.socket) -> Any:
    """Read one message; None if the other end is gone before it is whole."""
    head = _read(connection, _LENGTH_BYTES)
    if head is None:
        return None
    body = _read(connection, int.from_bytes(head, "little"))
    return None if body is None else marshal.loads(body)


def _read(connection: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        try:
            part = connection.recv(min(size, 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
