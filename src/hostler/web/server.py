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
from hostler.web.auth import AccessToken, AuthPolicy, read_or_create_token
from hostler.web.context import WebContext
from hostler.web.discovery import write_address_file
from hostler.web.errors import build_error_response
from hostler.web.live.streams import ABORT_EXTENSION
from hostler.web.middleware import SECURITY_HEADERS

MAX_HEAD_BYTES = 64 * 1024
# A moment for what is under way; live clients come back by themselves.
SHUTDOWN_SECONDS = 1
START_TIMEOUT_SECONDS = 30.0
MAX_CONNECTIONS = 256
# Who connects and says nothing for so long does not want anything.
HEAD_TIMEOUT_SECONDS = 10.0


def connection_limit() -> int:
    """How many may be open at once: the service beside us needs most descriptors for its work."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(1, min(MAX_CONNECTIONS, soft // 4))


class LimitedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds on connections and on heads, whose application can hang up."""

    _unread = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let somebody in, if there is room."""
        if len(self.connections) >= connection_limit():
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
        self._patience = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head does not come to its end."""
        self._unread += len(data)
        if self._unread > MAX_HEAD_BYTES + len(data):
            self.transport.abort()
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Lend every request a way to hang up."""
        super().on_message_begin()
        if self._patience is None:
            self._wait_for_a_head()
        self.scope["extensions"] = {ABORT_EXTENSION: self.transport.abort}  # type: ignore[dict-item]

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._unread = 0
        self._wait_no_more()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """What is no HTTP is refused in the one shape too, and hung up on."""
        told = build_error_response(400, "That is no request of HTTP.", kind="not_understood")
        lines = {**SECURITY_HEADERS, "Content-Type": "application/json", "Connection": "close"}
        lines["Content-Length"] = str(len(told.body))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{head}\r\n".encode() + told.body)
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        """A piece of the body came: its size is bounded elsewhere."""
        self._unread = 0
        super().on_body(body)


class ApiServer(uvicorn.Server):
    """Says when it answers, and leaves signals to the service."""

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


def open_listener(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes a free one."""
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
def run_server(app: ASGIApp, at: socket.socket) -> Iterator[None]:
    """Answer at a socket for the length of a block."""
    server = ApiServer(app)
    thread = threading.Thread(target=_serve, args=[server, at], name="web", daemon=True)
    thread.start()
    try:
        if not server.answers.wait(START_TIMEOUT_SECONDS):
            raise HostlerError("The API does not start.", safe="Nothing else was started.")
        yield
    finally:
        server.leave()
        thread.join(SHUTDOWN_SECONDS * 5)


def _serve(server: ApiServer, at: socket.socket) -> None:
    with suppress(asyncio.CancelledError, KeyboardInterrupt), at:
        asyncio.run(server.serve(sockets=[at]))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def build_local_url(at: socket.socket) -> str:
    """The address for a browser on this machine."""
    name: Any = at.getsockname()
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
    """Where to listen."""

    host: str
    port: int

    @property
    def wide(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class ApiDeps:
    """What an API stands on. `settings`: those in force; `by`: whoever holds the token."""

    home: Path
    store: Store
    clock: Clock
    settings: Callable[[], Settings]
    by: str
    log: EventLog
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunningApi:
    """An API that answers."""

    url: str
    token: AccessToken
    wide: bool

    def sentence(self) -> str:
        """What people are told."""
        wide = " Other machines can reach it, unencrypted: put TLS before it." if self.wide else ""
        return f"The API answers at {self.url}; its token is in {self.token.where}.{wide}"


def choose_address(web: Web, asked: str) -> ListenAddress:
    """Where to listen: as asked for (`host:port`), else as the settings say."""
    if not asked:
        return _check_allowed(ListenAddress(web.host, web.port), web)
    host, colon, port = asked.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise HostlerError(
            f"{asked[:80]!r} is no address to listen on.",
            safe="Nothing was started.",
            remedy="Write it as host:port, such as 127.0.0.1:8473.",
        )
    return _check_allowed(ListenAddress(host.strip("[]") or "127.0.0.1", int(port)), web)


def _check_allowed(address: ListenAddress, web: Web) -> ListenAddress:
    if address.wide and not web.allow_remote:
        raise HostlerError(
            f"Other machines could reach {address.host}.",
            safe="Nothing was started.",
            remedy="Set `allow_remote = true` in [web] if they shall, and name a token of your own "
            "(`token_file` or `token_env`).",
        )
    return address


@contextmanager
def serve_api(ground: ApiDeps, address: ListenAddress) -> Iterator[RunningApi]:
    """Answer as long as the block lasts. What keeps us from it is raised before anything starts."""
    web = ground.settings().web
    token = read_or_create_token(web, ground.home, ground.environment, wide=address.wide)
    context = WebContext(
        ground.home, ground.store, ground.clock, ground.settings, ground.by, ground.log
    )
    hosts = frozenset(name.lower() for name in web.hosts)
    # Whoever allows other machines may have put a proxy before us, under a name of its own.
    app = build_app(context, AuthPolicy(token.value, address.wide or web.allow_remote, hosts))
    at = open_listener(address.host, address.port)
    with closing(context.live), run_server(app, at):
        served = RunningApi(build_local_url(at), token, address.wide)
        ground.log.event(names.WEB_LISTENING, url=served.url, wide=served.wide)
        with write_address_file(ground.home, served.url):
            yield served
