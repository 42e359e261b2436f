"""Receive webhooks: verify each delivery, and trigger a poll of its repository.

A delivery is only a hint: nothing in it is used but the name of the repository.
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
_EVENT_HEADER = "x-github-event"
# Larger than anything that GitHub sends about the events that we want; it sends up to 25 MB.
MAX_BODY_BYTES = 5 * 1024 * 1024
# So many signatures are remembered, to know a delivery that comes again.
_MAX_REMEMBERED = 10_000


class WebhookStatus(IntEnum):
    """What is answered, as HTTP says it."""

    TAKEN = 202
    UNREADABLE = 400
    FORGED = 403
    SEEN_BEFORE = 409
    NOT_JSON = 415


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """What was sent; the names of headers are lower case."""

    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class DeliveryVerdict:
    """What to answer, and which repository to look at, if any."""

    answer: WebhookStatus
    repo: str | None = None


def sign_delivery(body: bytes, secret: bytes) -> str:
    """What GitHub writes over a body that it sends with this secret."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


class DeliveryVerifier:
    """Judges deliveries. Remembers the newest signatures, in memory: a replay costs one look."""

    def __init__(self, secret: bytes, remembered: int = _MAX_REMEMBERED) -> None:
        if not secret:
            raise ValueError("without a secret everybody could knock")
        self._secret = secret
        self._remembered = remembered
        self._seen: dict[str, None] = {}

    def judge(self, delivery: WebhookDelivery) -> DeliveryVerdict:
        """What a delivery is worth. Not safe to call from two threads at once."""
        wanted = sign_delivery(delivery.body, self._secret)
        given = delivery.headers.get(_SIGNATURE_HEADER, "")
        # Before all else: whoever does not know the secret learns nothing from our answers.
        if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
            return DeliveryVerdict(WebhookStatus.FORGED)
        if not delivery.headers.get("content-type", "").startswith("application/json"):
            return DeliveryVerdict(WebhookStatus.NOT_JSON)
        # The number of a delivery is not signed; the signature of the same body is the same.
        if wanted in self._seen:
            return DeliveryVerdict(WebhookStatus.SEEN_BEFORE)
        try:
            repo = _repository_name(json.loads(delivery.body))
        except (ValueError, RecursionError):
            return DeliveryVerdict(WebhookStatus.UNREADABLE)
        self._remember(wanted)
        return DeliveryVerdict(WebhookStatus.TAKEN, repo)

    def _remember(self, signature: str) -> None:
        self._seen[signature] = None
        while len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]


def _repository_name(payload: object) -> str | None:
    """`owner/name` in lower case; None for what is about no repository."""
    if not isinstance(payload, dict):
        raise ValueError("a payload is an object")
    repository = payload.get("repository")
    name = repository.get("full_name") if isinstance(repository, dict) else None
    return name.lower() if isinstance(name, str) else None


WEBHOOK_PATH = "/webhook"
# How long somebody may take to send a delivery, and how many may do so at once.
MAX_REQUEST_SECONDS = 10.0
MAX_CONNECTIONS = 16

# Told the repository to look at, as `owner/name` in lower case.
OnRepoChanged = Callable[[str], None]
# Told the status of every answer.
OnAnswer = Callable[[int], None]


class WebhookReceiver:
    """Listens until it is closed."""

    def __init__(
        self,
        address: tuple[str, int],
        doorkeeper: DeliveryVerifier,
        knock: OnRepoChanged,
        tell: OnAnswer = lambda _: None,
    ) -> None:
        self._server = _WebhookServer(address, doorkeeper, knock, tell)
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


class _WebhookServer(ThreadingHTTPServer):
    daemon_threads = True
    # Otherwise a restart could not listen for minutes.
    allow_reuse_address = True
    seconds = MAX_REQUEST_SECONDS

    def __init__(
        self,
        address: tuple[str, int],
        doorkeeper: DeliveryVerifier,
        knock: OnRepoChanged,
        tell: OnAnswer,
    ) -> None:
        super().__init__(address, _WebhookHandler)
        self.doorkeeper = doorkeeper
        self.knock = knock
        self.tell = tell
        self.lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)

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


class _WebhookHandler(BaseHTTPRequestHandler):
    server: _WebhookServer
    timeout = MAX_REQUEST_SECONDS

    def version_string(self) -> str:
        """Which Python this is, is nobody's business."""
        return "Hostler"

    def do_POST(self) -> None:
        """Take a delivery."""
        if self.path.partition("?")[0] != WEBHOOK_PATH:
            self._answer(404)
            return
        size = self.headers.get("content-length", "")
        if not (size.isascii() and size.isdigit()):
            self._answer(411)
        elif len(size) > 12 or int(size) > MAX_BODY_BYTES:
            self._answer(413)
        else:
            self._take(self.rfile.read(int(size)), int(size))

    def _take(self, body: bytes, size: int) -> None:
        if len(body) < size:
            self._answer(WebhookStatus.UNREADABLE)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            verdict = self.server.doorkeeper.judge(WebhookDelivery(headers, body))
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


# Anything shorter can be guessed.
_MIN_SECRET_LENGTH = 16
_CREATE_REMEDY = "Make one (openssl rand -hex 32), and give the same to GitHub."


@contextmanager
def receive_webhooks(
    settings: GitHub, knock: OnRepoChanged, tell: OnAnswer
) -> Iterator[WebhookReceiver | None]:
    """Listen for the length of a block; None where the settings name no address."""
    if not settings.webhook_listen:
        yield None
        return
    doorkeeper = DeliveryVerifier(_read_secret(settings).encode())
    try:
        receiver = WebhookReceiver(_parse_address(settings.webhook_listen), doorkeeper, knock, tell)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HostlerError(
            f"Nobody can listen on {settings.webhook_listen}: {reason}.",
            safe="Nothing was started.",
            remedy="Choose another `github.webhook_listen`, or leave it empty.",
        ) from error
    with closing(receiver):
        yield receiver


def _read_secret(settings: GitHub) -> str:
    """The secret that GitHub signs with. Raises if there is none, or one that can be guessed."""
    if settings.webhook_secret_file:
        secret = _read_secret_file(settings.webhook_secret_file)
    else:
        secret = os.environ.get(settings.webhook_secret_env or "", "").strip()
    if len(secret) < _MIN_SECRET_LENGTH:
        found = "is missing" if not secret else f"is shorter than {_MIN_SECRET_LENGTH} characters"
        raise HostlerError(
            f"`github.webhook_listen` is set, and the webhook secret {found}.",
            safe="Nothing was started.",
            remedy="Name `github.webhook_secret_file` or `github.webhook_secret_env`. "
            f"{_CREATE_REMEDY}",
        )
    register_secret(secret)
    return secret


def _parse_address(text: str) -> tuple[str, int]:
    """`host:port` in parts; an IPv6 address stands in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(text: str) -> bool:
    """Whether only this machine can reach an address."""
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
            f"The file of the webhook secret, {name}, cannot be read: {reason}.",
            safe="Nothing was started.",
            remedy=_CREATE_REMEDY,
        ) from error
