"""Read the address of `[notify]`, build a signed request, and send it.

The address is a secret: redirects are not followed, and no error names it.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import httpx

from hostler import __version__
from hostler.config.settings import Notify
from hostler.errors import HostlerError
from hostler.store.operator import Notice
from hostler.telemetry.redaction import redact, register_secret

MAX_FILE_LENGTH = 8192
NOTHING_SENT = "Nothing was sent."


@dataclass(frozen=True, slots=True)
class NotifyAddress:
    """The URL and signing secret. Neither is ever shown."""

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)


def read_address(notify: Notify, environment: Mapping[str, str]) -> NotifyAddress | None:
    """Return the configured address, or None if there is none."""
    if not notify.url_env and not notify.url_file:
        return None
    url = _read_value("url", notify.url_env, notify.url_file, environment)
    validate_address(url)
    register_secret(url)
    secret = ""
    if notify.secret_env or notify.secret_file:
        secret = _read_value("secret", notify.secret_env, notify.secret_file, environment)
        register_secret(secret)
    return NotifyAddress(url, secret)


def validate_address(url: str) -> None:
    """Raise HostlerError if the URL is invalid, or unencrypted to another machine."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    is_local_http = parts.scheme == "http" and _is_loopback(host)
    if (
        not host
        or not (parts.scheme == "https" or is_local_http)
        or not url.isascii()
        or " " in url
    ):
        raise HostlerError(
            "The URL in `[notify]` is not valid.",
            safe=NOTHING_SENT,
            remedy="Use an https URL (http only for this machine).",
        )


def _read_value(key: str, variable: str, file: str, environment: Mapping[str, str]) -> str:
    found = _read_file(file) if file else environment.get(variable, "").strip()
    if found:
        return found
    problem = f"The file in `notify.{key}_file` is empty." if file else f"${variable} is not set."
    raise HostlerError(
        problem, safe=NOTHING_SENT, remedy=f"Set `notify.{key}_env` or `notify.{key}_file`."
    )


def _read_file(name: str) -> str:
    path = Path(name).expanduser()
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MAX_FILE_LENGTH).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise HostlerError(
            f"{path} cannot be read: {reason}.",
            safe=NOTHING_SENT,
            remedy="Check the file named in `[notify]`.",
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


MessageFormat = Literal["generic", "slack", "ntfy"]
SIGNATURE_HEADER = "X-Hostler-Signature-256"
_NTFY_PRIORITIES = {"restart_failed": "high", "blocked": "high", "parked": "low"}


@dataclass(frozen=True, slots=True)
class NotificationRequest:
    """The body and headers of a request."""

    body: bytes
    headers: Mapping[str, str]


def build_request(notice: Notice, format: MessageFormat, secret: str = "") -> NotificationRequest:
    """Return the request for a notification, signed if there is a secret."""
    request = {"generic": _build_generic, "slack": _build_slack, "ntfy": _build_ntfy}[format](
        notice
    )
    if not secret:
        return request
    signed = {SIGNATURE_HEADER: sign_body(request.body, secret)}
    return NotificationRequest(request.body, {**request.headers, **signed})


def sign_body(body: bytes, secret: str) -> str:
    """Return the HMAC of a body in the form of GitHub's webhooks."""
    return f"sha256={hmac.new(secret.encode(), body, sha256).hexdigest()}"


def _delivery_id(notice: Notice) -> str:
    """Return an id that is the same for each attempt, so that receivers can detect repetitions."""
    return sha256(notice.key.encode()).hexdigest()[:32]


def _build_generic(notice: Notice) -> NotificationRequest:
    fields = {
        "version": 1,
        "occasion": notice.occasion,
        "title": redact(notice.title),
        "body": redact(notice.body),
        "url": notice.url,
        "delivery": _delivery_id(notice),
        "at": notice.created_at,
    }
    headers = {
        "Content-Type": "application/json",
        "X-Hostler-Event": notice.occasion,
        "X-Hostler-Delivery": _delivery_id(notice),
    }
    return NotificationRequest(_encode_json(fields), headers)


def _build_slack(notice: Notice) -> NotificationRequest:
    title = f"*{_escape_slack(notice.title)}*"
    link = f"\n<{notice.url}>" if notice.url else ""
    text = f"\n{_escape_slack(notice.body)}" if notice.body else ""
    return NotificationRequest(
        _encode_json({"text": f"{title}{text}{link}"}), {"Content-Type": "application/json"}
    )


def _escape_slack(text: str) -> str:
    """Escape text for Slack, so that it contains no links or mentions."""
    plain = redact(text).replace("&", "&amp;")
    return plain.replace("<", "&lt;").replace(">", "&gt;")


def _build_ntfy(notice: Notice) -> NotificationRequest:
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Title": to_header_text(redact(notice.title)),
        "Priority": _NTFY_PRIORITIES.get(notice.occasion, "default"),
        "Tags": to_header_text(notice.occasion),
    }
    if notice.url:
        headers["Click"] = to_header_text(notice.url)
    body = redact(notice.body) or redact(notice.title)
    return NotificationRequest(body.encode("utf-8", "replace"), headers)


def to_header_text(text: str) -> str:
    """Return text as one line of ASCII for a header."""
    line = " ".join(text.split())
    return "".join(c if " " <= c <= "~" else "?" for c in line)[:200]


def _encode_json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=True).encode()


TIMEOUT_SECONDS = 10.0


class NotificationFailed(HostlerError):
    """A request failed. `retry_after` is the number of seconds that the receiver asked to wait."""

    def __init__(self, why: str, *, retryable: bool, retry_after: float = 0.0) -> None:
        super().__init__(
            f"The notification was not delivered: {why}.", remedy="Check the URL in `[notify]`."
        )
        self.why = why
        self.retryable = retryable
        self.retry_after = retry_after


def post_notification(
    address: NotifyAddress, request: NotificationRequest, seconds: float = TIMEOUT_SECONDS
) -> int:
    """Send a request and return the status of the response. Raises NotificationFailed.

    Redirects are not followed, because the signed request is meant for this address only.
    """
    headers = {"User-Agent": f"hostler/{__version__}", **request.headers}
    # Plain http is allowed only to this machine: use no proxy, and load no certificates.
    is_https = address.url.startswith("https:")
    try:
        with (
            httpx.Client(timeout=seconds, trust_env=is_https, verify=is_https) as client,
            client.stream("POST", address.url, content=request.body, headers=headers) as response,
        ):
            status, retry_after = response.status_code, response.headers.get("Retry-After", "")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NotificationFailed(
            f"no connection ({type(error).__name__})", retryable=True
        ) from None
    if not 200 <= status < 300:
        raise _failure_for(status, retry_after)
    return status


def _failure_for(status: int, retry_after: str) -> NotificationFailed:
    retryable = status == 429 or status == 408 or status >= 500
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    return NotificationFailed(f"HTTP {status}", retryable=retryable, retry_after=seconds)
