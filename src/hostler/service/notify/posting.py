"""One call. Redirects are not followed, and no error names the address."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any

from hostler import __version__
from hostler.errors import HostlerError
from hostler.service.notify.address import Address
from hostler.service.notify.shapes import Call

SECONDS = 10.0


class Refused(HostlerError):
    """A call that was not taken; `again`: it may be, later. `after`: the other side says when."""

    def __init__(self, why: str, *, again: bool, after: float = 0.0) -> None:
        super().__init__(
            f"The call was not taken: {why}.", remedy="Look at the address of `[notify]`."
        )
        self.why = why
        self.again = again
        self.after = after


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A signed call is for the one who was named."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def post(address: Address, call: Call, seconds: float = SECONDS) -> int:
    """Make a call; the status of the answer. Raises `Refused`."""
    headers = {"User-Agent": f"hostler/{__version__}", **call.headers}
    request = urllib.request.Request(address.url, call.body, headers, method="POST")  # noqa: S310 - its scheme was looked at
    try:
        with _opener(address).open(request, timeout=seconds) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            raise _judged(error.code, error.headers.get("Retry-After", "")) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise Refused(f"no connection ({type(cause).__name__})", again=True) from None


def _opener(address: Address) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if address.url.startswith("http:"):
        # No proxy stands between us and this machine.
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def _judged(status: int, after: str) -> Refused:
    again = status == 429 or status == 408 or status >= 500
    wait = float(after) if after.isascii() and after.isdigit() else 0.0
    return Refused(f"HTTP {status}", again=again, after=wait)
