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
# A service that does not answer at once is left alone: the database is as near.
FINGERPRINT_TIMEOUT_SECONDS = 2.0
# Longer than the database keeps anybody waiting.
ANSWER_TIMEOUT_SECONDS = 90.0
# What is larger goes to the database: a refusal of its size could be lost while we still send.
MAX_BODY_BYTES = 1024 * 1024
MAX_ANSWER_BYTES = 16 * 1024 * 1024
T = TypeVar("T")


class NotExecuted(Exception):
    """Nothing was done: the same may be done another way."""


class NotAnswered(HostlerError):
    """The service may have done it, and did not say so."""

    exit_code = 76

    def __init__(self, reason: str, look: str) -> None:
        super().__init__(
            f"The service was asked, and gave no clear answer: {reason}.",
            safe="It may have been done. It was not asked for again.",
            remedy=look,
        )


class ServiceConnection:
    """A connection to a service, in somebody's name."""

    def __init__(self, url: str, token: str, by: str) -> None:
        place, self.url = urlsplit(url), url
        self._http = HTTPConnection(
            place.hostname or "", place.port, timeout=FINGERPRINT_TIMEOUT_SECONDS
        )
        self._headers = {"Authorization": f"Bearer {token}"}
        self._by = by

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def likeness(self) -> str:
        """Whom we speak to, first of all; raises `NotTaken` where that cannot be told."""
        try:
            status, data = self._exchange("GET", "/likeness", b"", self._headers)
            told = json.loads(data)["likeness"] if status == 200 else ""
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            raise NotExecuted from error
        # The one who answered is the one who gets the command, or nobody does.
        self._http.auto_open = 0
        if self._http.sock is not None:
            self._http.sock.settimeout(ANSWER_TIMEOUT_SECONDS)
        return str(told)

    def ask(
        self, method: str, path: str, body: object, read: Callable[[Any], T], *, look: str
    ) -> T:
        """Have something done. `read` understands the answer; `look`: how to see what was done."""
        data, headers = self._written(body)
        try:
            status, answer = self._exchange(method, path, data, headers)
        except NotConnected as error:
            raise NotExecuted from error
        except (OSError, HTTPException) as error:
            raise NotAnswered(_describe_failure(error), look) from error
        found = parse_answer(status, answer, look)
        try:
            return read(found)
        except (KeyError, TypeError, ValueError) as error:
            raise NotAnswered("what it said cannot be understood", look) from error

    def _written(self, body: object) -> tuple[bytes, dict[str, str]]:
        try:
            data = json.dumps(body, ensure_ascii=False).encode()
            headers = {CALLER_HEADER: quote(self._by), "Content-Type": "application/json"}
        except UnicodeEncodeError as error:  # no text: a file's name can be so
            raise NotExecuted from error
        if len(data) > MAX_BODY_BYTES:
            raise NotExecuted
        return data, {**self._headers, **headers}

    def _exchange(
        self, method: str, path: str, data: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        self._http.request(method, f"{API_PREFIX}{path}", data or None, headers)
        answer = self._http.getresponse()
        return answer.status, answer.read(MAX_ANSWER_BYTES)


def parse_answer(status: int, data: bytes, look: str) -> Any:
    """What an answer means: the facts in it, or an error. Pure."""
    try:
        found = json.loads(data)
    except ValueError:  # no UTF-8 either
        raise NotAnswered(f"a status of {status} without words of ours", look) from None
    if 200 <= status < 300:
        return found
    fault = found.get("error") if isinstance(found, dict) else None
    if not isinstance(fault, dict) or fault.get("kind") in (None, "defect"):
        raise NotAnswered(f"it failed, with a status of {status}", look)
    code = fault.get("exit_code")
    if not isinstance(code, int):
        # The API itself refuses, and whatever it refuses changed nothing.
        raise NotExecuted
    raise _rebuild_error(fault, code)


def _rebuild_error(fault: dict[str, Any], code: int) -> HostlerError:
    """An error as the same command meets it without a service."""
    what, safe, remedy = (str(fault.get(name, "")) for name in ("what", "safe", "remedy"))
    error = HostlerError(what, safe=safe, remedy=remedy)
    error.exit_code = code
    return error


def _describe_failure(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it was silent for {ANSWER_TIMEOUT_SECONDS:.0f} seconds"
    return "the connection was lost"
