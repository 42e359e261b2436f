"""A small HTTP server for webhooks: one path, one method, bounded in everything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hostler.service.webhooks.deliveries import MOST_BYTES, Answer, Delivery, Doorkeeper

PATH = "/webhook"
# How long somebody may take to send a delivery, and how many may do so at once.
SECONDS = 10.0
AT_ONCE = 16

# Told the repository to look at, as `owner/name` in lower case.
Knock = Callable[[str], None]
# Told the status of every answer.
Tell = Callable[[int], None]


class Receiver:
    """Listens until it is closed."""

    def __init__(
        self,
        address: tuple[str, int],
        doorkeeper: Doorkeeper,
        knock: Knock,
        tell: Tell = lambda _: None,
    ) -> None:
        self._server = _Server(address, doorkeeper, knock, tell)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="webhooks", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Take nothing any more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Otherwise a restart could not listen for minutes.
    allow_reuse_address = True
    seconds = SECONDS

    def __init__(
        self, address: tuple[str, int], doorkeeper: Doorkeeper, knock: Knock, tell: Tell
    ) -> None:
        super().__init__(address, _Handler)
        self.doorkeeper = doorkeeper
        self.knock = knock
        self.tell = tell
        self.lock = threading.Lock()
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Beyond so many at once, nobody is listened to: GitHub sends it again."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """All of it within the time: who sends a byte now and then holds no place for long."""
        over = threading.Timer(self.seconds, _hang_up, [request])
        over.daemon = True
        over.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            over.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody hung up, or sent nonsense: no news."""


def _hang_up(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SECONDS

    def version_string(self) -> str:
        """Which Python this is, is nobody's business."""
        return "Hostler"

    def do_POST(self) -> None:
        """Take a delivery."""
        if self.path.partition("?")[0] != PATH:
            self._answer(404)
            return
        size = self.headers.get("content-length", "")
        if not (size.isascii() and size.isdigit()):
            self._answer(411)
        elif len(size) > 12 or int(size) > MOST_BYTES:
            self._answer(413)
        else:
            self._take(self.rfile.read(int(size)), int(size))

    def _take(self, body: bytes, size: int) -> None:
        if len(body) < size:
            self._answer(Answer.UNREADABLE)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            verdict = self.server.doorkeeper.judge(Delivery(headers, body))
        if verdict.repo is not None:
            self.server.knock(verdict.repo)
        self._answer(verdict.answer)

    def _answer(self, status: int) -> None:
        self.server.tell(status)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """What strangers send is not for our log."""
