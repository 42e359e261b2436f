"""Uvicorn, taught to drop a connection when the fault plan says so."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hostler.errors import SandboxError

HOST = "127.0.0.1"
MAX_HEAD_BYTES = 65_536
HEAD_TOO_LARGE_RESPONSE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class HttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a limit on headers, whose application can hang up without an answer."""

    _in_head = True
    _head = 0  # bytes of the header fields that were read
    _unread = 0  # bytes that came since the parser last got anywhere

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head (or a trailer, or a chunk's size) does not come to its end."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Give every request a way to hang up."""
        self._in_head, self._head = True, 0
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self._abort}  # type: ignore[dict-item]

    def on_url(self, url: bytes) -> None:
        """Count the address as part of the head."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count every header, those after the body too."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head, self._unread = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body came."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._unread = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request that cannot be read, and hang up."""
        if max(self._head, self._unread) <= MAX_HEAD_BYTES:
            super().send_400_response(msg)
        elif self._in_head:
            self.transport.write(HEAD_TOO_LARGE_RESPONSE)
            self.transport.close()
        else:
            self.transport.abort()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD_BYTES:
            # The parser stops at any exception, and then asks for the 400.
            raise ValueError("too many bytes of headers")

    def _abort(self, after_flush: bool) -> None:
        if after_flush:
            self.transport.close()
        else:
            self.transport.abort()


class SandboxServer(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        config = uvicorn.Config(
            app,
            http=HttpProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
            backlog=2048,
        )
        super().__init__(config)
        self.ready = threading.Event()
        self._answering = asyncio.Event()

    async def answering(self) -> None:
        """Wait until requests are answered."""
        await self._answering.wait()

    def stop(self) -> None:
        """Stop after the requests in progress; at the second call, immediately."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller, who saves the state before exiting."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then set the events that callers wait for."""
        await super().startup(sockets=sockets)
        self.ready.set()
        self._answering.set()


def listen_on(port: int) -> socket.socket:
    """Listen on the loopback address; port 0 takes a free port."""
    # Named as TCP, or asyncio leaves Nagle's algorithm on and answers wait 40 ms for an ACK.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(2048)
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SandboxError(
            f"The sandbox cannot listen on {HOST}:{port}: {reason}.",
            remedy="Choose another port with --port, or 0 for a free one.",
        ) from None
    return made


def url_of_socket(listening: Any) -> str:
    """Return the URL of a listening socket."""
    return f"http://{HOST}:{listening.getsockname()[1]}"


ABORT = "hostler.abort"
