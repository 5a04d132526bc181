"""A door before a real Docker Engine: shut it, and the engine is away for whoever came through it.

The engine itself goes on, so that no other test is touched.
"""

import os
import selectors
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal

_CHUNK_BYTES = 65536


class EngineDoor:
    """Listens on a socket of its own and passes everything on to the engine's."""

    def __init__(self, engine: str, path: Path) -> None:
        self._engine = engine.removeprefix("unix://")
        self._path = path
        self._state: Literal["open", "shut", "hung"] = "shut"
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._server: socket.socket | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.open()
        self._thread.start()

    @property
    def address(self) -> str:
        """What DOCKER_HOST is set to."""
        return f"unix://{self._path}"

    def open(self) -> None:
        """Let everybody through (again)."""
        with self._lock:
            if self._server is None:
                self._server = socket.socket(socket.AF_UNIX)
                self._server.bind(os.fspath(self._path))
                self._server.listen(64)
                self._selector.register(self._server, selectors.EVENT_READ)
            self._state = "open"

    def shut(self) -> None:
        """Break every connection and refuse new ones, as an engine that was killed."""
        with self._lock:
            self._state = "shut"
            if self._server is not None:
                self._selector.unregister(self._server)
                self._server.close()
                self._server = None
                self._path.unlink()
            for one in list(self._pairs):
                self._drop(one)

    def hang(self) -> None:
        """Keep every connection and say nothing, as an engine that was stopped by SIGSTOP."""
        with self._lock:
            self._state = "hung"

    def close(self) -> None:
        """End the door."""
        self.shut()
        self._ended.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(0.02):
                with self._lock:
                    if self._state == "open":
                        self._pass_on(key.fileobj)
            if self._state == "hung":
                self._ended.wait(0.02)

    def _pass_on(self, source: object) -> None:
        assert isinstance(source, socket.socket)
        if source is self._server:
            near, _ = source.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._engine)
            for one, other in ((near, far), (far, near)):
                self._pairs[one] = other
                self._selector.register(one, selectors.EVENT_READ)
            return
        if source not in self._pairs:
            return
        try:
            data = source.recv(_CHUNK_BYTES)
            if data:
                self._pairs[source].sendall(data)
                return
        except OSError:
            pass
        self._drop(source)

    def _drop(self, one: socket.socket) -> None:
        for end in (one, self._pairs.pop(one, None)):
            if end is not None:
                self._pairs.pop(end, None)
                with suppress(KeyError, ValueError):
                    self._selector.unregister(end)
                end.close()
