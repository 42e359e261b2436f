"""Sessions of browsers: random ids in memory, gone with the process."""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass, replace

from hostler.clock import Clock

IDLE_SECONDS = 12 * 3600.0
LONGEST_SECONDS = 7 * 86_400.0
MOST = 64


@dataclass(frozen=True, slots=True)
class Session:
    """One browser. Moments are of the monotonic clock."""

    csrf: str
    opened: float
    used: float

    def over(self, now: float) -> bool:
        """Whether it counts no more."""
        return now - self.used > IDLE_SECONDS or now - self.opened > LONGEST_SECONDS


class Sessions:
    """All that are open. Safe to share between threads."""

    def __init__(self, clock: Clock, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._guard = threading.Lock()
        # By the digest of its id: whoever reads our memory of them cannot use them.
        self._open: dict[str, Session] = {}

    def open(self) -> str:
        """A new one; its id."""
        made, now = secrets.token_urlsafe(32), self._clock.monotonic()
        with self._guard:
            self._forget(now)
            while len(self._open) >= self._most:
                del self._open[min(self._open, key=lambda name: self._open[name].used)]
            self._open[_digest(made)] = Session(secrets.token_urlsafe(32), now, now)
        return made

    def find(self, name: str) -> Session | None:
        """The one with this id, which is used by that."""
        key, now = _digest(name), self._clock.monotonic()
        with self._guard:
            self._forget(now)
            found = self._open.get(key)
            if found is None:
                return None
            self._open[key] = replace(found, used=now)
            return found

    def lasts(self, name: str) -> bool:
        """Whether one is still open; to ask is no use of it."""
        with self._guard:
            self._forget(self._clock.monotonic())
            return _digest(name) in self._open

    def close(self, name: str) -> None:
        """End one."""
        with self._guard:
            self._open.pop(_digest(name), None)

    def _forget(self, now: float) -> None:
        for name in [name for name, one in self._open.items() if one.over(now)]:
            del self._open[name]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
