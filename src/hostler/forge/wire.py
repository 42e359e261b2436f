"""One exchange with GitHub. The only module that knows httpx.

A request goes out once. What comes back is an `Answer`, or one of our errors by the tables here
and in `refusals.py`. GitHub's time is learnt from every answer.
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
from hostler.errors import ForgeError, NotFound, RateLimited, ServerFailed, Unclear, Unreachable
from hostler.forge.budget import Accounts, Kind
from hostler.forge.budget.accounts import Turn
from hostler.forge.limits import Budget, read_budget, read_refusal
from hostler.forge.refusals import moved, refusal, said

READS = ("GET", "HEAD")
REDIRECTS = (301, 307, 308)
# What is asked for is kept elsewhere, for a while.
FOUND = 302
# A pooled connection that waits long for its turn, or a host that does not even connect.
CONNECT_SECONDS = 10.0
# So much of a text that is kept elsewhere is of use.
LONGEST_TAIL = 256 * 1024
# After so long without a word, GitHub's time is asked for again.
STALE_SECONDS = 60.0
_NEXT = re.compile(r'<([^>]+)>\s*;[^,]*rel="?(next|last)"?')

# Whether anything may have reached GitHub when this was raised. A test keeps it complete.
MAYBE_SENT: dict[type[httpx.RequestError], bool] = {
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
class Request:
    """What is asked. `safe` says that repeating it does no harm, as with every read.

    `account` is who pays for it; `urgent` marks a read that a write waits for;
    `stored` one whose answer says where a text is kept.
    """

    method: str
    url: str
    body: Any = None
    etag: str = ""
    bearer: str = ""
    safe: bool = False
    account: str = ""
    urgent: bool = False
    stored: bool = False

    @property
    def reading(self) -> bool:
        """Whether an answer that was lost changed nothing that matters."""
        return self.safe or self.method in READS

    @property
    def kind(self) -> Kind:
        """What it is for GitHub's limits."""
        if self.method in READS:
            return Kind.URGENT if self.urgent else Kind.READ
        return Kind.CREATION if self.method == "POST" and not self.safe else Kind.WRITE

    @property
    def words(self) -> str:
        """The request in a message: without its query."""
        return f"{self.method} {urlsplit(self.url).path}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What GitHub said: `data` is None for 204 and 304; links are absolute, or empty."""

    status: int
    data: Any
    budget: Budget
    etag: str = ""
    next_url: str = ""
    last_url: str = ""
    redirect: str = ""
    # The number of the repository that answered under a new name; 0 where the name is right.
    repository_id: int = 0

    @property
    def unchanged(self) -> bool:
        """Whether what the caller has is still true."""
        return self.status == 304


class Wire:
    """The connection to one host."""

    def __init__(
        self,
        base_url: str,
        clock: Clock,
        *,
        api_version: str = "2022-11-28",
        timeout: float = 30.0,
        budget: Accounts | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.budget = budget or Accounts(clock)
        self._clock = clock
        self._heard: tuple[datetime, float, datetime] | None = None
        self._http = httpx.Client(
            headers={
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": api_version,
                "User-Agent": f"hostler/{__version__}",
            },
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            follow_redirects=False,
            # Without TLS there is nothing to verify, and reading all certificates takes a while.
            verify=urlsplit(base_url).scheme == "https",
            # No proxy stands between us and this machine.
            trust_env=not _loopback(base_url),
        )

    def close(self) -> None:
        """Let go of all connections; nobody waits for its turn any more."""
        self.budget.close()
        self._http.close()

    def absolute(self, path: str) -> str:
        """The address of a path of the API; addresses of other hosts are refused."""
        url = path if "://" in path else f"{self.base_url}/{path.lstrip('/')}"
        if not self.is_ours(url):
            raise ValueError(f"not an address of {self.base_url}: {url}")
        return url

    def is_ours(self, url: str) -> bool:
        """Whether an address is on our host, where credentials may go."""
        return _origin(url) == _origin(self.base_url)

    def send(self, request: Request) -> Answer:
        """One request, one answer, when the budget allows. Redirects come back as answers."""
        with self.budget.turn(request.account, request.kind, request.words) as turn:
            response = self._exchange(request, turn)
            headers = {name.lower(): value for name, value in response.headers.items()}
            budget = read_budget(headers)
            self._hear(budget.date)
            turn.answer(response.status_code, budget)
            data = _data(response)
            if response.status_code < 300 or response.status_code == 304:
                return self._answer(request, response, headers, budget, data)
            if response.status_code in REDIRECTS or (
                request.stored and response.status_code == FOUND
            ):
                target = urljoin(request.url, headers.get("location", ""))
                return Answer(response.status_code, None, budget, redirect=target)
            raise self._error(request, response.status_code, headers, data, turn)

    def tail(self, url: str, words: str) -> str:
        """The end of a text that is kept elsewhere. Nobody is told who asks, or where."""
        end = b""
        try:
            with self._http.stream("GET", url) as response:
                if response.status_code in (404, 410):
                    raise NotFound(words, response.status_code, "Not Found")
                if not response.is_success:
                    raise ServerFailed(words, response.status_code)
                for part in response.iter_bytes():
                    end = (end + part)[-LONGEST_TAIL:]
        except (httpx.RequestError, httpx.InvalidURL) as error:
            # Its text may hold the address.
            raise Unreachable(words, type(error).__name__) from None
        return end.decode("utf-8", "replace")

    def now(self) -> datetime:
        """GitHub's time, from its last answer; asked for where that is too long ago."""
        heard = self._known_time()
        if heard is not None:
            return heard
        refused = self.budget.refused_until()
        if refused is not None:
            raise RateLimited("GET /rate_limit", 0, refused, "secondary")
        try:
            # Free of charge; and a refusal tells the time as well.
            self.send(Request("GET", self.absolute("/rate_limit")))
        except ForgeError:
            if self._known_time() is None:
                raise
        return self._known_time() or self._clock.now()

    def _exchange(self, request: Request, turn: Turn) -> httpx.Response:
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
                turn.never_left()
            raise _translated(request, error) from error

    def _answer(
        self,
        request: Request,
        response: httpx.Response,
        headers: dict[str, str],
        budget: Budget,
        data: Any,
    ) -> Answer:
        if data is _UNREADABLE:
            raise _lost(request, response.status_code, "the answer cannot be read")
        links = {rel: url for url, rel in _NEXT.findall(headers.get("link", ""))}
        return Answer(
            response.status_code,
            data,
            budget,
            etag=headers.get("etag", ""),
            next_url=links.get("next", ""),
            last_url=links.get("last", ""),
        )

    def _error(
        self, request: Request, status: int, headers: dict[str, str], data: Any, turn: Turn
    ) -> ForgeError:
        if status >= 500 or status == 408:
            return _lost(request, status, f"the server failed ({status})")
        limit = read_refusal(status, headers, said(data), self._clock.now(), turn.refusals())
        if limit is not None:
            turn.refuse(limit)
            return RateLimited(request.words, status, limit.until, limit.limit)
        if status < 400:
            return moved(request.words, status, headers.get("location", ""))
        return refusal(request.words, status, data)

    def _hear(self, date: datetime | None) -> None:
        if date is not None:
            self._heard = (date, self._clock.monotonic(), self._clock.now())

    def _known_time(self) -> datetime | None:
        """The last answer's time plus what passed since, if both our clocks agree on little."""
        if self._heard is None:
            return None
        date, ticks, wall = self._heard
        passed = self._clock.monotonic() - ticks
        # A machine that slept shows it on one of the two clocks only.
        apart = abs((self._clock.now() - wall).total_seconds() - passed)
        if passed > STALE_SECONDS or apart > STALE_SECONDS:
            return None
        return date + timedelta(seconds=passed)


_UNREADABLE = object()


def _data(response: httpx.Response) -> Any:
    if not response.content:
        return None
    try:
        return response.json()
    except (ValueError, RecursionError):
        return _UNREADABLE


def _translated(request: Request, error: httpx.RequestError) -> ForgeError:
    reason = f"{type(error).__name__} ({error})" if str(error) else type(error).__name__
    if _maybe_sent(error) and not request.reading:
        return Unclear(request.words, reason)
    return Unreachable(request.words, reason)


def _maybe_sent(error: httpx.RequestError) -> bool:
    """Whether anything may have reached GitHub; of an unknown error the worst is thought."""
    known = (MAYBE_SENT[kind] for kind in type(error).__mro__ if kind in MAYBE_SENT)
    return next(known, True)


def _lost(request: Request, status: int, reason: str) -> ForgeError:
    if request.reading:
        return ServerFailed(request.words, status)
    return Unclear(request.words, reason)


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None
    return parts.scheme, (parts.hostname or "").lower(), port


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
