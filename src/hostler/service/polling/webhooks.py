"""Receive webhooks: verify each delivery, and trigger a poll of its repository.

Of a delivery, only the name of the repository is used.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from hostler.config.settings import GitHub
from hostler.errors import HostlerError
from hostler.telemetry.redaction import register_secret

_SIGNATURE_HEADER = "x-hub-signature-256"
# GitHub sends up to 25 MB, but much less for the events that Hostler needs.
MAX_BODY_BYTES = 5 * 1024 * 1024
# Number of signatures that are remembered to detect replays.
_MAX_SIGNATURES = 10_000


class WebhookStatus(IntEnum):
    """The HTTP status of a response."""

    ACCEPTED = 202
    INVALID_BODY = 400
    INVALID_SIGNATURE = 403
    REPLAYED = 409
    WRONG_CONTENT_TYPE = 415


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A received delivery. Header names are in lower case."""

    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class DeliveryVerdict:
    """The status of the response, and the repository to poll, if any."""

    status: WebhookStatus
    repo: str | None = None


def sign_delivery(body: bytes, secret: bytes) -> str:
    """Return the signature that GitHub sends with a body."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


class DeliveryVerifier:
    """Verifies deliveries. Remembers the newest signatures in memory, to refuse replays."""

    def __init__(self, secret: bytes, max_signatures: int = _MAX_SIGNATURES) -> None:
        if not secret:
            raise ValueError("a webhook secret is required")
        self._secret = secret
        self._max_signatures = max_signatures
        self._signatures: dict[str, None] = {}

    def verify(self, delivery: WebhookDelivery) -> DeliveryVerdict:
        """Check a delivery. Not thread-safe."""
        expected = sign_delivery(delivery.body, self._secret)
        given = delivery.headers.get(_SIGNATURE_HEADER, "")
        # First, so that callers without the secret learn nothing from the response.
        if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
            return DeliveryVerdict(WebhookStatus.INVALID_SIGNATURE)
        if not delivery.headers.get("content-type", "").startswith("application/json"):
            return DeliveryVerdict(WebhookStatus.WRONG_CONTENT_TYPE)
        # The delivery id is not signed, so replays are detected by the signature of the body.
        if expected in self._signatures:
            return DeliveryVerdict(WebhookStatus.REPLAYED)
        try:
            repo = _repository_name(json.loads(delivery.body))
        except (ValueError, RecursionError):
            return DeliveryVerdict(WebhookStatus.INVALID_BODY)
        self._remember(expected)
        return DeliveryVerdict(WebhookStatus.ACCEPTED, repo)

    def _remember(self, signature: str) -> None:
        self._signatures[signature] = None
        while len(self._signatures) > self._max_signatures:
            del self._signatures[next(iter(self._signatures))]


def _repository_name(payload: object) -> str | None:
    """Return `owner/name` in lower case, or None if the payload names no repository."""
    if not isinstance(payload, dict):
        raise ValueError("the payload must be an object")
    repository = payload.get("repository")
    name = repository.get("full_name") if isinstance(repository, dict) else None
    return name.lower() if isinstance(name, str) else None


WEBHOOK_PATH = "/webhook"
# Maximum time to send a delivery, and maximum of connections at once.
MAX_REQUEST_SECONDS = 10.0
MAX_CONNECTIONS = 16

# Called with the repository to poll, as `owner/name` in lower case.
OnRepoChanged = Callable[[str], None]
# Called with the status of every response.
OnResponse = Callable[[int], None]


class WebhookReceiver:
    """Receives deliveries in a thread until it is closed."""

    def __init__(
        self,
        address: tuple[str, int],
        verifier: DeliveryVerifier,
        on_repo_changed: OnRepoChanged,
        on_response: OnResponse = lambda _: None,
    ) -> None:
        self._server = _WebhookServer(address, verifier, on_repo_changed, on_response)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="webhooks", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _WebhookServer(ThreadingHTTPServer):
    daemon_threads = True
    # Without it, a restart could not listen again for minutes.
    allow_reuse_address = True
    max_seconds = MAX_REQUEST_SECONDS

    def __init__(
        self,
        address: tuple[str, int],
        verifier: DeliveryVerifier,
        on_repo_changed: OnRepoChanged,
        on_response: OnResponse,
    ) -> None:
        super().__init__(address, _WebhookHandler)
        self.verifier = verifier
        self.on_repo_changed = on_repo_changed
        self.on_response = on_response
        self.verify_lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuse connections above the limit; the next poll finds what they would have reported."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a request, and abort it if it takes too long in total."""
        timer = threading.Timer(self.max_seconds, _abort_connection, [request])
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnects and invalid requests."""


def _abort_connection(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _WebhookHandler(BaseHTTPRequestHandler):
    server: _WebhookServer
    timeout = MAX_REQUEST_SECONDS

    def version_string(self) -> str:
        """Hide the Python version."""
        return "Hostler"

    def do_POST(self) -> None:
        """Receive a delivery."""
        if self.path.partition("?")[0] != WEBHOOK_PATH:
            self._respond(404)
            return
        size = self.headers.get("content-length", "")
        if not (size.isascii() and size.isdigit()):
            self._respond(411)
        elif len(size) > 12 or int(size) > MAX_BODY_BYTES:
            self._respond(413)
        else:
            self._receive(self.rfile.read(int(size)), int(size))

    def _receive(self, body: bytes, size: int) -> None:
        if len(body) < size:
            self._respond(WebhookStatus.INVALID_BODY)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.verify_lock:
            verdict = self.server.verifier.verify(WebhookDelivery(headers, body))
        if verdict.repo is not None:
            self.server.on_repo_changed(verdict.repo)
        self._respond(verdict.status)

    def _respond(self, status: int) -> None:
        self.server.on_response(status)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because anyone can send requests."""


# Shorter secrets could be guessed.
_MIN_SECRET_LENGTH = 16
_CREATE_REMEDY = "Create one (openssl rand -hex 32), and enter the same on GitHub."


@contextmanager
def receive_webhooks(
    settings: GitHub, on_repo_changed: OnRepoChanged, on_response: OnResponse
) -> Iterator[WebhookReceiver | None]:
    """Receive webhooks during the block. Yields None if no address is configured."""
    if not settings.webhook_listen:
        yield None
        return
    verifier = DeliveryVerifier(_read_secret(settings).encode())
    try:
        address = _parse_address(settings.webhook_listen)
        receiver = WebhookReceiver(address, verifier, on_repo_changed, on_response)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HostlerError(
            f"Cannot listen for webhooks on {settings.webhook_listen}: {reason}.",
            safe="Nothing was started.",
            remedy="Change `github.webhook_listen`, or leave it empty to receive no webhooks.",
        ) from error
    with closing(receiver):
        yield receiver


def _read_secret(settings: GitHub) -> str:
    """Return the webhook secret. Raises if it is missing or too short."""
    if settings.webhook_secret_file:
        secret = _read_secret_file(settings.webhook_secret_file)
    else:
        secret = os.environ.get(settings.webhook_secret_env or "", "").strip()
    if len(secret) < _MIN_SECRET_LENGTH:
        problem = "is missing" if not secret else f"is shorter than {_MIN_SECRET_LENGTH} characters"
        raise HostlerError(
            f"`github.webhook_listen` is set, but the webhook secret {problem}.",
            safe="Nothing was started.",
            remedy="Set `github.webhook_secret_file` or `github.webhook_secret_env`. "
            f"{_CREATE_REMEDY}",
        )
    register_secret(secret)
    return secret


def _parse_address(text: str) -> tuple[str, int]:
    """Split `host:port`; an IPv6 address is in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(text: str) -> bool:
    """Return True if only this machine can reach the address."""
    host, _ = _parse_address(text)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_secret_file(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise HostlerError(
            f"The webhook secret file {name} cannot be read: {reason}.",
            safe="Nothing was started.",
            remedy=_CREATE_REMEDY,
        ) from error
