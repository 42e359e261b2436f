"""Send one request to GitHub, and map its answer or httpx's error to ours.

The only module that imports httpx. GitHub's time is read from every answer.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from hostler import __version__
from hostler.clock import Clock
from hostler.errors import (
    Conflict,
    Forbidden,
    ForgeError,
    Gone,
    Invalid,
    Moved,
    NotFound,
    RateLimited,
    Refused,
    ServerFailed,
    Unauthorized,
    Unclear,
    Unreachable,
)
from hostler.forge.github.rate_limit.accounts import RateLimitAccounts, RequestTurn
from hostler.forge.github.rate_limit.limits import (
    RateLimitBudget,
    RequestKind,
    parse_budget,
    parse_refusal,
)

_ERRORS_BY_STATUS: dict[int, tuple[type[Refused], str]] = {
    401: (Unauthorized, "Give Hostler a valid token: `hostler doctor` shows which one it uses."),
    403: (Forbidden, "Check the permissions of the token or App on this repository."),
    404: (NotFound, "Check the name, and the access of the token."),
    405: (Conflict, ""),
    409: (Conflict, ""),
    410: (Gone, ""),
    451: (Forbidden, "The repository was closed for legal reasons."),
}
_REPOSITORY_PATH = re.compile(r"/repositories/(\d{1,18})(?:/|$|\?)")


def error_from_answer(request: str, status: int, data: Any) -> Refused:
    """Return the error for a 3xx or 4xx answer that is not a rate limit."""
    message = error_message(data)
    if status in _ERRORS_BY_STATUS:
        kind, remedy = _ERRORS_BY_STATUS[status]
        return kind(request, status, message, remedy=remedy)
    return Invalid(request, status, message, _field_errors(data))


def redirect_target(request: str, status: int, location: str) -> Moved:
    """Return the error for a redirect that we do not follow."""
    return Moved(request, status, location, repository_in_path(location) or 0)


def repository_in_path(url: str) -> int | None:
    """Return the repository id in a URL, if it contains one."""
    found = _REPOSITORY_PATH.search(url)
    return int(found[1]) if found else None


def error_message(data: Any) -> str:
    """Return GitHub's error message."""
    message = data.get("message") if isinstance(data, dict) else None
    return message[:500] if isinstance(message, str) and message else "no reason given"


def _field_errors(data: Any) -> tuple[tuple[str, str, str], ...]:
    errors = data.get("errors") if isinstance(data, dict) else None
    return tuple(_field_error(error) for error in errors) if isinstance(errors, list) else ()


def _field_error(error: Any) -> tuple[str, str, str]:
    if not isinstance(error, dict):
        return ("", "custom", str(error)[:500])
    field, code, message = (error.get(name) or "" for name in ("field", "code", "message"))
    return (str(field), str(code), str(message)[:500])


READ_METHODS = ("GET", "HEAD")
REDIRECT_STATUSES = (301, 307, 308)
# The content is at another URL, which is valid for a while.
FOUND_STATUS = 302
# Limit for getting a pooled connection and for connecting.
CONNECT_SECONDS = 10.0
# How much of a log is kept.
MAX_TAIL_BYTES = 256 * 1024
# After this time without an answer, GitHub's time is requested again.
STALE_CONNECTION_SECONDS = 60.0
_NEXT_LINK = re.compile(r'<([^>]+)>\s*;[^,]*rel="?(next|last)"?')

# Whether anything may have reached GitHub when this was raised. A test keeps it complete.
MAYBE_SENT_ERRORS: dict[type[httpx.RequestError], bool] = {
    httpx.ConnectError: False,
    httpx.ConnectTimeout: False,
    httpx.PoolTimeout: False,
    httpx.ProxyError: False,
    httpx.UnsupportedProtocol: False,
    httpx.LocalProtocolError: True,
    httpx.WriteError: True,
    httpx.WriteTimeout: True,
    httpx.ReadError: True,
    httpx.ReadTimeout: True,
    httpx.CloseError: True,
    httpx.RemoteProtocolError: True,
    httpx.DecodingError: True,
    httpx.TooManyRedirects: True,
}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `safe` says that repeating it is harmless, as with every read.

    `account` is who pays for it; `urgent` marks a read that a write waits for;
    `expects_redirect` one that is answered with the URL of a log.
    """

    method: str
    url: str
    body: Any = None
    etag: str = ""
    bearer: str = ""
    safe: bool = False
    account: str = ""
    urgent: bool = False
    expects_redirect: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Return whether a lost answer changed nothing that matters."""
        return self.safe or self.method in READ_METHODS

    @property
    def kind(self) -> RequestKind:
        """Return its kind for GitHub's limits."""
        if self.method in READ_METHODS:
            return RequestKind.URGENT if self.urgent else RequestKind.READ
        return (
            RequestKind.CREATION if self.method == "POST" and not self.safe else RequestKind.WRITE
        )

    @property
    def description(self) -> str:
        """Return the request for messages, without its query."""
        return f"{self.method} {urlsplit(self.url).path}"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """GitHub's answer: `data` is None for 204 and 304; links are absolute, or empty."""

    status: int
    data: Any
    budget: RateLimitBudget
    etag: str = ""
    next_url: str = ""
    last_url: str = ""
    redirect: str = ""
    # The id of a repository that was renamed; 0 if the name is current.
    repository_id: int = 0

    @property
    def unchanged(self) -> bool:
        """Return whether the caller's copy is current."""
        return self.status == 304


class HttpTransport:
    """The connection to one host."""

    def __init__(
        self,
        base_url: str,
        clock: Clock,
        *,
        api_version: str = "2022-11-28",
        timeout: float = 30.0,
        budget: RateLimitAccounts | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.budget = budget or RateLimitAccounts(clock)
        self._clock = clock
        self._last_date: tuple[datetime, float, datetime] | None = None
        self._http = httpx.Client(
            headers={
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": api_version,
                "User-Agent": f"hostler/{__version__}",
            },
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            follow_redirects=False,
            # Without TLS there is nothing to verify, and loading certificates takes time.
            verify=urlsplit(base_url).scheme == "https",
            # Connect to this machine without a proxy.
            trust_env=not _is_loopback(base_url),
        )

    def close(self) -> None:
        """Close all connections and stop all waiting."""
        self.budget.close()
        self._http.close()

    def absolute(self, path: str) -> str:
        """Return the URL of an API path. Raise ValueError for other hosts."""
        url = path if "://" in path else f"{self.base_url}/{path.lstrip('/')}"
        if not self.is_ours(url):
            raise ValueError(f"not an address of {self.base_url}: {url}")
        return url

    def is_ours(self, url: str) -> bool:
        """Return whether a URL is on our host, to which credentials may be sent."""
        return _url_origin(url) == _url_origin(self.base_url)

    def send(self, request: ApiRequest) -> ApiAnswer:
        """Send one request when the rate limit allows. Redirects are returned as answers."""
        with self.budget.turn(request.account, request.kind, request.description) as turn:
            response = self._send_http(request, turn)
            headers = {name.lower(): value for name, value in response.headers.items()}
            budget = parse_budget(headers)
            self._remember_date(budget.date)
            turn.record_answer(response.status_code, budget)
            data = _decode_body(response)
            if response.status_code < 300 or response.status_code == 304:
                return self._build_answer(request, response, headers, budget, data)
            if response.status_code in REDIRECT_STATUSES or (
                request.expects_redirect and response.status_code == FOUND_STATUS
            ):
                target = urljoin(request.url, headers.get("location", ""))
                return ApiAnswer(response.status_code, None, budget, redirect=target)
            raise self._build_error(request, response.status_code, headers, data, turn)

    def download_tail(self, url: str, description: str) -> str:
        """Return the end of a log at another URL, without credentials. The URL is not logged."""
        end = b""
        try:
            with self._http.stream("GET", url) as response:
                if response.status_code in (404, 410):
                    raise NotFound(description, response.status_code, "Not Found")
                if not response.is_success:
                    raise ServerFailed(description, response.status_code)
                for part in response.iter_bytes():
                    end = (end + part)[-MAX_TAIL_BYTES:]
        except (httpx.RequestError, httpx.InvalidURL) as error:
            # The error message may contain the URL.
            raise Unreachable(description, type(error).__name__) from None
        return end.decode("utf-8", "replace")

    def now(self) -> datetime:
        """Return GitHub's time from its last answer; request it if that is too old."""
        known = self._server_time()
        if known is not None:
            return known
        refused = self.budget.refused_until()
        if refused is not None:
            raise RateLimited("GET /rate_limit", 0, refused, "secondary")
        try:
            # This request is free, and an error has a date as well.
            self.send(ApiRequest("GET", self.absolute("/rate_limit")))
        except ForgeError:
            if self._server_time() is None:
                raise
        return self._server_time() or self._clock.now()

    def _send_http(self, request: ApiRequest, turn: RequestTurn) -> httpx.Response:
        headers = {}
        if request.bearer:
            headers["Authorization"] = f"Bearer {request.bearer}"
        if request.etag:
            headers["If-None-Match"] = request.etag
        content = None if request.body is None else json.dumps(request.body).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            return self._http.request(request.method, request.url, content=content, headers=headers)
        except httpx.RequestError as error:
            if not _maybe_sent(error):
                turn.mark_not_sent()
            raise _translate_error(request, error) from error

    def _build_answer(
        self,
        request: ApiRequest,
        response: httpx.Response,
        headers: dict[str, str],
        budget: RateLimitBudget,
        data: Any,
    ) -> ApiAnswer:
        if data is _UNREADABLE_ANSWER:
            raise _connection_lost(request, response.status_code, "the answer cannot be read")
        links = {rel: url for url, rel in _NEXT_LINK.findall(headers.get("link", ""))}
        return ApiAnswer(
            response.status_code,
            data,
            budget,
            etag=headers.get("etag", ""),
            next_url=links.get("next", ""),
            last_url=links.get("last", ""),
        )

    def _build_error(
        self,
        request: ApiRequest,
        status: int,
        headers: dict[str, str],
        data: Any,
        turn: RequestTurn,
    ) -> ForgeError:
        if status >= 500 or status == 408:
            return _connection_lost(request, status, f"the server failed ({status})")
        limit = parse_refusal(
            status, headers, error_message(data), self._clock.now(), turn.count_refusals()
        )
        if limit is not None:
            turn.record_refusal(limit)
            return RateLimited(request.description, status, limit.until, limit.limit)
        if status < 400:
            return redirect_target(request.description, status, headers.get("location", ""))
        return error_from_answer(request.description, status, data)

    def _remember_date(self, date: datetime | None) -> None:
        if date is not None:
            self._last_date = (date, self._clock.monotonic(), self._clock.now())

    def _server_time(self) -> datetime | None:
        """Return the last answer's time plus the time since, if both our clocks agree."""
        if self._last_date is None:
            return None
        date, ticks, wall = self._last_date
        passed = self._clock.monotonic() - ticks
        # After a suspend, only one of the two clocks has advanced.
        apart = abs((self._clock.now() - wall).total_seconds() - passed)
        if passed > STALE_CONNECTION_SECONDS or apart > STALE_CONNECTION_SECONDS:
            return None
        return date + timedelta(seconds=passed)


_UNREADABLE_ANSWER = object()


def _decode_body(response: httpx.Response) -> Any:
    if not response.content:
        return None
    try:
        return response.json()
    except (ValueError, RecursionError):
        return _UNREADABLE_ANSWER


def _translate_error(request: ApiRequest, error: httpx.RequestError) -> ForgeError:
    reason = f"{type(error).__name__} ({error})" if str(error) else type(error).__name__
    if _maybe_sent(error) and not request.is_repeatable:
        return Unclear(request.description, reason)
    return Unreachable(request.description, reason)


def _maybe_sent(error: httpx.RequestError) -> bool:
    """Return whether anything may have reached GitHub; True for unknown errors."""
    known = (MAYBE_SENT_ERRORS[kind] for kind in type(error).__mro__ if kind in MAYBE_SENT_ERRORS)
    return next(known, True)


def _connection_lost(request: ApiRequest, status: int, reason: str) -> ForgeError:
    if request.is_repeatable:
        return ServerFailed(request.description, status)
    return Unclear(request.description, reason)


def _url_origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None
    return parts.scheme, (parts.hostname or "").lower(), port


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
