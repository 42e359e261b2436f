"""A server beside the service: its own thread and loop, ended with its block."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hostler.errors import HostlerError
from hostler.web.guard import HEADERS
from hostler.web.live.sse import ABORT
from hostler.web.refusals import answer

LARGEST_HEAD = 64 * 1024
# A moment for what is under way; live clients come back by themselves.
LEAVE_SECONDS = 1
START_SECONDS = 30.0
MOST_CONNECTIONS = 256
# Who connects and says nothing for so long does not want anything.
HEAD_SECONDS = 10.0


def most_connections() -> int:
    """How many may be open at once: the service beside us needs most descriptors for its work."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft < 0 else max(1, min(MOST_CONNECTIONS, soft // 4))


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds on connections and on heads, whose application can hang up."""

    _unread = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let somebody in, if there is room."""
        if len(self.connections) >= most_connections():
            transport.abort()
            return
        super().connection_made(transport)
        self._wait_for_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever it was is gone."""
        self._wait_no_more()
        if self in self.connections:
            super().connection_lost(exc)

    def _wait_for_a_head(self) -> None:
        self._wait_no_more()
        self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head does not come to its end."""
        self._unread += len(data)
        if self._unread > LARGEST_HEAD + len(data):
            self.transport.abort()
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Lend every request a way to hang up."""
        super().on_message_begin()
        if self._patience is None:
            self._wait_for_a_head()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._unread = 0
        self._wait_no_more()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """What is no HTTP is refused in the one shape too, and hung up on."""
        told = answer(400, "That is no request of HTTP.", kind="not_understood")
        lines = {**HEADERS, "Content-Type": "application/json", "Connection": "close"}
        lines["Content-Length"] = str(len(told.body))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{head}\r\n".encode() + told.body)
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        """A piece of the body came: its size is bounded elsewhere."""
        self._unread = 0
        super().on_body(body)


class Server(uvicorn.Server):
    """Says when it answers, and leaves signals to the service."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="critical",
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=LEAVE_SECONDS,
                proxy_headers=False,
            )
        )
        self.answers = threading.Event()
        self._asked = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever started us has ears of his own."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        self.answers.set()

    async def main_loop(self) -> None:
        """Wait to be asked to leave. The usual loop wakes ten times a second for nothing."""
        await self._asked.wait()

    def leave(self) -> None:
        """Ask it to leave, from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has left
                self._loop.call_soon_threadsafe(self._asked.set)


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes a free one."""
    try:
        (family, kind, proto, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        made = socket.socket(family, kind, proto)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_listening(host, port, error) from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        raise _no_listening(host, port, error) from error
    return made


@contextmanager
def serving(app: ASGIApp, at: socket.socket) -> Iterator[None]:
    """Answer at a socket for the length of a block."""
    server = Server(app)
    thread = threading.Thread(target=_run, args=[server, at], name="web", daemon=True)
    thread.start()
    try:
        if not server.answers.wait(START_SECONDS):
            raise HostlerError("The API does not start.", safe="Nothing else was started.")
        yield
    finally:
        server.leave()
        thread.join(LEAVE_SECONDS * 5)


def _run(server: Server, at: socket.socket) -> None:
    with suppress(asyncio.CancelledError, KeyboardInterrupt), at:
        asyncio.run(server.serve(sockets=[at]))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def url_of(at: socket.socket) -> str:
    """The address for a browser on this machine."""
    name: Any = at.getsockname()
    host, port = str(name[0]), int(name[1])
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _no_listening(host: str, port: int, error: Exception) -> HostlerError:
    reason = getattr(error, "strerror", None) or str(error)
    return HostlerError(
        f"The API cannot listen on {host}:{port}: {reason}.",
        safe="Nothing was started.",
        remedy="Choose another address with --web-listen, or `[web] host` and `port`.",
    )
