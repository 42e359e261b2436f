"""The road to a GitHub on this machine: open, closed, or with somebody on it who talks nonsense."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

CHUNK = 65_536


class Road:
    """A relay in front of a server. Closed, connections to it are refused."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 80)
        self._nonsense: bytes | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._door = socket.create_server(("127.0.0.1", 0))
        self._port = self._door.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._serve()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Nobody answers, as when a host is down."""
        self.close()
        try:
            yield
        finally:
            self._door = socket.create_server(("127.0.0.1", self._port))
            self._serve()

    @contextmanager
    def talking(self, answer: bytes) -> Iterator[None]:
        """Every request is answered with these bytes."""
        self._nonsense = answer
        self._cut()
        try:
            yield
        finally:
            self._nonsense = None
            self._cut()

    def close(self) -> None:
        """Let go of everything."""
        with suppress(OSError):
            # Closing alone does not wake who waits in accept.
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join()
        self._cut()

    def _serve(self) -> None:
        self._thread = threading.Thread(target=self._accept, args=(self._door,), daemon=True)
        self._thread.start()

    def _accept(self, door: socket.socket) -> None:
        while True:
            try:
                caller, _ = door.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(caller,), daemon=True).start()

    def _relay(self, caller: socket.socket) -> None:
        with suppress(OSError), caller:
            if (nonsense := self._nonsense) is not None:
                caller.recv(CHUNK)
                caller.sendall(nonsense)
                return
            with socket.create_connection(self._target) as server:
                self._keep(caller, server)
                back = threading.Thread(target=_pump, args=(server, caller), daemon=True)
                back.start()
                _pump(caller, server)
                back.join()
                self._forget(caller, server)

    def _keep(self, *ends: socket.socket) -> None:
        with self._lock:
            self._open.update(ends)

    def _forget(self, *ends: socket.socket) -> None:
        with self._lock:
            self._open.difference_update(ends)

    def _cut(self) -> None:
        """End what is under way: kept connections would pass a closed door."""
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def answer(body: bytes, kind: str = "application/json") -> bytes:
    """An HTTP answer."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
