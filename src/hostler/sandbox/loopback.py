"""Who may talk to the sandbox: programs of this machine, and no web page."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Whether a `Host` header names this machine by one of its own names."""
    return _LOOPBACK.fullmatch(host) is not None


def objection(path: str, headers: Mapping[str, str]) -> str | None:
    """Why a request is refused; None where it is not.

    A page can make its own name point to this machine, but then the browser sends that name
    as `Host`; and what it sends across, it marks with `Origin`.
    """
    if not is_loopback(headers.get("host", "")):
        return "The sandbox answers to 127.0.0.1 and localhost only"
    controls = path == "/_sandbox" or path.startswith("/_sandbox/")
    if controls and "origin" in headers:
        return "Web pages may not use the controls"
    return None
