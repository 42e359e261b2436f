"""One HTTP exchange with the API of a service on this machine.

It returns the answer, or raises the error that the command would meet without a service,
`NotExecuted` if nothing was done, or `NotAnswered` if the outcome is unknown. `http.client` uses no
proxy and does not retry.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, NotConnected
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from hostler.errors import HostlerError

API_PREFIX = "/api/v1"
CALLER_HEADER = "X-Hostler-By"
# If the service does not answer in this time, the command uses the database directly.
FINGERPRINT_TIMEOUT_SECONDS = 2.0
# Longer than the longest wait for the database.
ANSWER_TIMEOUT_SECONDS = 90.0
# Larger requests use the database: the response to an oversized body could be lost while sending.
MAX_BODY_BYTES = 1024 * 1024
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
T = TypeVar("T")


class NotExecuted(Exception):
    """Nothing was done. The caller can use the database instead."""


class NotAnswered(HostlerError):
    """The outcome of a request is unknown."""

    exit_code = 76

    def __init__(self, reason: str, check_hint: str) -> None:
        super().__init__(
            f"No clear response from the service: {reason}.",
            safe="The command may have been executed. It was not repeated.",
            remedy=check_hint,
        )


class ServiceConnection:
    """A connection to the service in the name of a user."""

    def __init__(self, url: str, token: str, by: str) -> None:
        parts, self.url = urlsplit(url), url
        self._http = HTTPConnection(
            parts.hostname or "", parts.port, timeout=FINGERPRINT_TIMEOUT_SECONDS
        )
        self._headers = {"Authorization": f"Bearer {token}"}
        self._by = by

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def fetch_fingerprint(self) -> str:
        """Return the service's fingerprint; raise NotExecuted if there is none. Call this first."""
        try:
            status, data = self._exchange("GET", "/fingerprint", b"", self._headers)
            fingerprint = json.loads(data)["fingerprint"] if status == 200 else ""
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            raise NotExecuted from error
        # Do not reconnect: another process could answer on that port.
        self._http.auto_open = 0
        if self._http.sock is not None:
            self._http.sock.settimeout(ANSWER_TIMEOUT_SECONDS)
        return str(fingerprint)

    def request(
        self, method: str, path: str, body: object, parse: Callable[[Any], T], *, check_hint: str
    ) -> T:
        """Send a request and parse the response.

        `check_hint` tells users how to check the outcome if there is no clear response.
        """
        data, headers = self._encode(body)
        try:
            status, answer = self._exchange(method, path, data, headers)
        except NotConnected as error:
            raise NotExecuted from error
        except (OSError, HTTPException) as error:
            raise NotAnswered(_describe_failure(error), check_hint) from error
        found = parse_answer(status, answer, check_hint)
        try:
            return parse(found)
        except (KeyError, TypeError, ValueError) as error:
            raise NotAnswered("the response has an unexpected form", check_hint) from error

    def _encode(self, body: object) -> tuple[bytes, dict[str, str]]:
        try:
            data = json.dumps(body, ensure_ascii=False).encode()
            headers = {CALLER_HEADER: quote(self._by), "Content-Type": "application/json"}
        except UnicodeEncodeError as error:  # file names can contain lone surrogates
            raise NotExecuted from error
        if len(data) > MAX_BODY_BYTES:
            raise NotExecuted
        return data, {**self._headers, **headers}

    def _exchange(
        self, method: str, path: str, data: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        self._http.request(method, f"{API_PREFIX}{path}", data or None, headers)
        answer = self._http.getresponse()
        return answer.status, answer.read(_MAX_ANSWER_BYTES)


def parse_answer(status: int, data: bytes, check_hint: str) -> Any:
    """Return the data of a response, or raise the error that it reports."""
    try:
        found = json.loads(data)
    except ValueError:  # also invalid UTF-8
        raise NotAnswered(f"status {status} without a JSON body", check_hint) from None
    if 200 <= status < 300:
        return found
    fault = found.get("error") if isinstance(found, dict) else None
    if not isinstance(fault, dict) or fault.get("kind") in (None, "internal_error"):
        raise NotAnswered(f"it failed with status {status}", check_hint)
    code = fault.get("exit_code")
    if not isinstance(code, int):
        # The API itself refused the request, so nothing was changed.
        raise NotExecuted
    raise _rebuild_error(fault, code)


def _rebuild_error(fault: dict[str, Any], code: int) -> HostlerError:
    """Return the error that the same command raises without a service."""
    what, safe, remedy = (str(fault.get(name, "")) for name in ("what", "safe", "remedy"))
    error = HostlerError(what, safe=safe, remedy=remedy)
    error.exit_code = code
    return error


def _describe_failure(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not respond within {ANSWER_TIMEOUT_SECONDS:.0f} seconds"
    return "the connection was lost"
