"""Run the API in a thread: listening socket, connection limits, start and shutdown."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hostler.clock import Clock
from hostler.config.settings import Settings, Web
from hostler.errors import HostlerError
from hostler.store import Store
from hostler.telemetry import names
from hostler.telemetry.logs import EventLog
from hostler.web.app import build_app
from hostler.web.auth import AuthPolicy, WebToken, read_or_create_token
from hostler.web.context import WebContext
from hostler.web.discovery import write_address_file
from hostler.web.errors import build_error_response
from hostler.web.live.streams import ABORT_EXTENSION
from hostler.web.middleware import SECURITY_HEADERS

MAX_HEAD_BYTES = 64 * 1024
# Time for requests in progress; live clients reconnect.
SHUTDOWN_SECONDS = 1
_START_TIMEOUT_SECONDS = 30.0
MAX_CONNECTIONS = 256
# Close connections that send no complete request head in this time.
HEAD_TIMEOUT_SECONDS = 10.0


def connection_limit() -> int:
    """Return the maximum of open connections, which leaves most descriptors to the service."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(1, min(MAX_CONNECTIONS, soft // 4))


class LimitedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on connections and request heads. The application can abort it."""

    _unread = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection unless the limit is reached."""
        if len(self.connections) >= connection_limit():
            transport.abort()
            return
        super().connection_made(transport)
        self._wait_for_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait_no_more()
        if self in self.connections:
            super().connection_lost(exc)

    def _wait_for_a_head(self) -> None:
        self._wait_no_more()
        self._patience = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def data_received(self, data: bytes) -> None:
        """Read data, and abort if a request head is too long."""
        self._unread += len(data)
        if self._unread > MAX_HEAD_BYTES + len(data):
            self.transport.abort()
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Give each request a way to abort its connection."""
        super().on_message_begin()
        if self._patience is None:
            self._wait_for_a_head()
        self.scope["extensions"] = {ABORT_EXTENSION: self.transport.abort}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """Stop the timeout for the request head."""
        self._unread = 0
        self._wait_no_more()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse invalid HTTP with the usual error body, and close the connection."""
        response = build_error_response(400, "Not a valid HTTP request.", kind="bad_request")
        lines = {**SECURITY_HEADERS, "Content-Type": "application/json", "Connection": "close"}
        lines["Content-Length"] = str(len(response.body))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{head}\r\n".encode() + response.body)
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Reset the count of the head; the middleware limits bodies."""
        self._unread = 0
        super().on_body(body)


class _ApiServer(uvicorn.Server):
    """A uvicorn server that signals when it is ready, and handles no signals."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=LimitedHttpProtocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="critical",
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                proxy_headers=False,
            )
        )
        self.ready = threading.Event()
        self._stop_requested = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signal handling to the calling process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then set `ready`."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Wait for `stop`. Uvicorn's own loop would wake ten times a second."""
        await self._stop_requested.wait()

    def stop(self) -> None:
        """Stop the server. Thread-safe."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._stop_requested.set)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free port."""
    try:
        (family, kind, proto, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        made = socket.socket(family, kind, proto)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _build_listen_error(host, port, error) from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        raise _build_listen_error(host, port, error) from error
    return made


@contextmanager
def run_server(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serve the application on a socket during the block."""
    server = _ApiServer(app)
    thread = threading.Thread(target=_serve, args=[server, listener], name="web", daemon=True)
    thread.start()
    try:
        if not server.ready.wait(_START_TIMEOUT_SECONDS):
            raise HostlerError("The API did not start.", safe="Nothing else was started.")
        yield
    finally:
        server.stop()
        thread.join(SHUTDOWN_SECONDS * 5)


def _serve(server: _ApiServer, listener: socket.socket) -> None:
    with suppress(asyncio.CancelledError, KeyboardInterrupt), listener:
        asyncio.run(server.serve(sockets=[listener]))


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def build_local_url(listener: socket.socket) -> str:
    """Return the URL for a browser on this machine."""
    name: Any = listener.getsockname()
    host, port = str(name[0]), int(name[1])
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _build_listen_error(host: str, port: int, error: Exception) -> HostlerError:
    reason = getattr(error, "strerror", None) or str(error)
    return HostlerError(
        f"The API cannot listen on {host}:{port}: {reason}.",
        safe="Nothing was started.",
        remedy="Choose another address with --web-listen, or `[web] host` and `port`.",
    )


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The host and port to listen on."""

    host: str
    port: int

    @property
    def is_remote(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class ApiDeps:
    """What the API needs. `settings` returns the current ones; `by` is the token's owner."""

    home: Path
    store: Store
    clock: Clock
    settings: Callable[[], Settings]
    by: str
    log: EventLog
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunningApi:
    """A running API."""

    url: str
    token: WebToken
    is_remote: bool

    def describe(self) -> str:
        """Return the line that commands print."""
        warning = " Other machines can reach it without encryption." if self.is_remote else ""
        return f"Dashboard: {self.url} (token: hostler web token){warning}"


def choose_address(web: Web, requested: str) -> ListenAddress:
    """Return where to listen: the `requested` `host:port`, else the address in the settings."""
    if not requested:
        return _check_allowed(ListenAddress(web.host, web.port), web)
    host, colon, port = requested.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise HostlerError(
            f"Invalid address {requested[:80]!r} (expected host:port).",
            safe="Nothing was started.",
            remedy="For example: 127.0.0.1:8473.",
        )
    return _check_allowed(ListenAddress(host.strip("[]") or "127.0.0.1", int(port)), web)


def _check_allowed(address: ListenAddress, web: Web) -> ListenAddress:
    if address.is_remote and not web.allow_remote:
        raise HostlerError(
            f"Other machines could reach the API on {address.host}.",
            safe="Nothing was started.",
            remedy="To allow it, set `allow_remote` and `token_file` or `token_env` in [web].",
        )
    return address


@contextmanager
def serve_api(deps: ApiDeps, address: ListenAddress) -> Iterator[RunningApi]:
    """Serve the API during the block. Raises before anything starts."""
    web = deps.settings().web
    token = read_or_create_token(web, deps.home, deps.environment, require_own=address.is_remote)
    context = WebContext(deps.home, deps.store, deps.clock, deps.settings, deps.by, deps.log)
    hosts = frozenset(name.lower() for name in web.hosts)
    # With `allow_remote`, a proxy may forward requests under another host name.
    app = build_app(context, AuthPolicy(token.value, address.is_remote or web.allow_remote, hosts))
    listener = open_listener(address.host, address.port)
    with closing(context.live), run_server(app, listener):
        served = RunningApi(build_local_url(listener), token, address.is_remote)
        deps.log.event(names.WEB_LISTENING, url=served.url, wide=served.is_remote)
        with write_address_file(deps.home, served.url):
            yield served
