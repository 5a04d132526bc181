"""The output stream of one exec, read without ever blocking past a deadline."""

import select
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

_CHUNK_BYTES = 64 * 1024
_HEADER_BYTES = 8

STDOUT = 1
STDERR = 2


class FrameReader:
    """Takes apart the engine's framing: one byte stream, four zero-padded, four of length, data.

    Frames may arrive in pieces of any size.
    """

    def __init__(self, sink: Callable[[int, bytes], None]) -> None:
        self._sink = sink
        self._header = bytearray()
        self._stream = 0
        self._remaining = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes and hand (stream number, content) to the sink."""
        position = 0
        while position < len(data):
            if self._remaining:
                piece = data[position : position + self._remaining]
                self._sink(self._stream, piece)
                self._remaining -= len(piece)
                position += len(piece)
            else:
                wanted = _HEADER_BYTES - len(self._header)
                self._header += data[position : position + wanted]
                position += wanted
                self._take_header()

    def _take_header(self) -> None:
        if len(self._header) == _HEADER_BYTES:
            self._stream = self._header[0]
            self._remaining = int.from_bytes(self._header[4:], "big")
            self._header.clear()


class ExecStream:
    """The socket that the client library returns for `exec_start(socket=True)`."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        # Over a plain socket the library returns the file object around it.
        self._socket: Any = getattr(raw, "_sock", raw)
        self._early = list(_read_ahead(raw, self._socket))

    def read(self, timeout_seconds: float) -> bytes | None:
        """Return what is there; b"" at the end of the stream, None if nothing comes in time.

        A connection that breaks reads as the end: only an inspection can tell what it means.
        """
        if self._early:
            return self._early.pop(0)
        try:
            if not self._is_ready(timeout_seconds):
                return None
            return bytes(self._socket.recv(_CHUNK_BYTES))
        except (ssl.SSLWantReadError, BlockingIOError):
            return None
        except OSError:
            return b""

    def _is_ready(self, timeout_seconds: float) -> bool:
        pending = getattr(self._socket, "pending", None)  # decrypted already, invisible to poll
        if pending is not None and pending():
            return True
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN | select.POLLPRI)
        return bool(poll.poll(max(0.0, timeout_seconds) * 1000))

    def close(self) -> None:
        """Hang up; the exec's process goes on."""
        # The response owns the file object and the connection below it.
        owner: Any = getattr(self._raw, "_response", None) or self._raw
        with suppress(OSError, ValueError):
            owner.close()


def _read_ahead(raw: Any, connection: Any) -> Iterator[bytes]:
    """Yield the output that arrived together with the response's header.

    The HTTP client reads headers through a buffer and the library then returns the socket below it,
    so whatever the buffer holds would be lost, and with it the framing.
    """
    response = getattr(raw, "_response", None)
    buffered = getattr(getattr(getattr(response, "raw", None), "_fp", None), "fp", None)
    if buffered is None or not isinstance(connection, socket.socket):
        return
    connection.setblocking(False)  # an empty buffer must not wait for the socket
    try:
        ahead = buffered.peek()
    except (OSError, ValueError):
        ahead = b""
    if ahead:
        yield bytes(ahead)
