"""What systemd is told: ready, reloading, leaving, alive. On any other system, nothing."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from hostler.clock import Clock

SOCKET, PERIOD, OWNER = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
# What the new program may need on top of an update, until it turns: the database may be large.
BEGINNING_SECONDS = 3600.0
# Three signs of life in each period: one may be late.
SIGNS = 3


class Systemd:
    """Speaks on the socket that systemd names in our environment; what is not heard is lost."""

    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._address = environment.get(SOCKET, "")
        self._clock = clock
        self.watchdog_seconds = _period(environment)

    @property
    def listens(self) -> bool:
        """Whether anybody is told anything."""
        return bool(self._address)

    def ready(self, status: str = "") -> None:
        """We work, from the beginning or again; the watchdog has its own period."""
        words = ["READY=1"]
        if self.watchdog_seconds:
            words.append(f"WATCHDOG_USEC={int(self.watchdog_seconds * 1_000_000)}")
        self._say(*words, *_status(status))

    def reloading(self) -> None:
        """The settings are read again; `ready` follows, whatever comes of it."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={int(self._clock.monotonic() * 1_000_000)}")

    def stopping(self, status: str = "") -> None:
        """We leave."""
        self._say("STOPPING=1", *_status(status))

    def updating(self, seconds: float) -> None:
        """We are about to be replaced: nothing turns meanwhile, and an update may take so long."""
        words = [f"WATCHDOG_USEC={int((seconds + BEGINNING_SECONDS) * 1_000_000)}"]
        self._say(*(words if self.watchdog_seconds else ()), *_status("Restarting."))

    def alive(self) -> None:
        """The scheduler has turned."""
        self._say("WATCHDOG=1")

    def _say(self, *words: str) -> None:
        if not self._address or not words:
            return
        # A name that begins with @ is not in any folder.
        where = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        flags = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
        # Work goes on, whoever does not listen.
        with suppress(OSError), socket.socket(socket.AF_UNIX, flags) as line:
            line.settimeout(1.0)
            line.sendto("\n".join(words).encode(), where)


def _period(environment: Mapping[str, str]) -> float:
    """The watchdog's period; 0 where there is none, or it is for another process."""
    period, owner = environment.get(PERIOD, ""), environment.get(OWNER, "")
    if not (period.isascii() and period.isdigit()) or owner not in ("", str(os.getpid())):
        return 0.0
    return int(period) / 1_000_000


def _status(text: str) -> tuple[str, ...]:
    line = " ".join(text.split())
    return (f"STATUS={line}",) if line else ()


class Watchdog:
    """Signs of life, from the scheduler's own thread: who does not turn gives none.

    A small thread only asks for a turn, so that a service with nothing to do turns too.
    """

    def __init__(self, systemd: Systemd, clock: Clock, wake: Callable[[], None]) -> None:
        self._systemd = systemd
        self._clock = clock
        self._wake = wake
        self._pause = systemd.watchdog_seconds / SIGNS
        self._last: float | None = None
        self._leaving = clock.wakeup()
        self._thread = threading.Thread(target=self._ask, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        if self._pause:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        if self._thread.is_alive():
            self._thread.join()

    def turned(self) -> None:
        """The scheduler has turned; many turns in a moment are one sign."""
        now = self._clock.monotonic()
        # A little early counts: the next turn may be as late as the next question.
        if self._pause and (self._last is None or now - self._last >= self._pause * 0.9):
            self._last = now
            self._systemd.alive()

    def _ask(self) -> None:
        while not self._leaving.wait(self._pause):
            self._wake()
