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
from hostler.sandbox.app import ABORT

HOST = "127.0.0.1"


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 whose application can end the connection without an answer."""

    def on_message_begin(self) -> None:
        """Give every request a way to hang up."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self._abort}  # type: ignore[dict-item]

    def _abort(self, after_flush: bool) -> None:
        if after_flush:
            self.transport.close()
        else:
            self.transport.abort()


class Server(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        config = uvicorn.Config(
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
        """End after what is under way; a second time, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever started us: they save before they go."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets=sockets)
        self.ready.set()
        self._answering.set()


def listen(port: int) -> socket.socket:
    """A socket on this machine's own address; port 0 takes a free one."""
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


def url_of(listening: Any) -> str:
    """Where a socket is reached."""
    return f"http://{HOST}:{listening.getsockname()[1]}"
