"""Notify systemd (ready, reloading, stopping, watchdog), and render the unit file."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hostler.clock import Clock

_SOCKET_VARIABLE, _WATCHDOG_VARIABLE, _WATCHDOG_PID_VARIABLE = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
)
# What the new program may need on top of an update, until it turns: the database may be large.
_STARTUP_SECONDS = 3600.0
# Three signs of life in each period: one may be late.
_SIGNALS_PER_PERIOD = 3


class SystemdNotifier:
    """Speaks on the socket that systemd names in our environment; what is not heard is lost."""

    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._address = environment.get(_SOCKET_VARIABLE, "")
        self._clock = clock
        self.watchdog_seconds = _watchdog_period(environment)

    @property
    def listens(self) -> bool:
        """Whether anybody is told anything."""
        return bool(self._address)

    def ready(self, status: str = "") -> None:
        """We work, from the beginning or again; the watchdog has its own period."""
        words = ["READY=1"]
        if self.watchdog_seconds:
            words.append(f"WATCHDOG_USEC={int(self.watchdog_seconds * 1_000_000)}")
        self._say(*words, *_status_fields(status))

    def reloading(self) -> None:
        """The settings are read again; `ready` follows, whatever comes of it."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={int(self._clock.monotonic() * 1_000_000)}")

    def stopping(self, status: str = "") -> None:
        """We leave."""
        self._say("STOPPING=1", *_status_fields(status))

    def updating(self, seconds: float) -> None:
        """We are about to be replaced: nothing turns meanwhile, and an update may take so long."""
        words = [f"WATCHDOG_USEC={int((seconds + _STARTUP_SECONDS) * 1_000_000)}"]
        self._say(*(words if self.watchdog_seconds else ()), *_status_fields("Restarting."))

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


def _watchdog_period(environment: Mapping[str, str]) -> float:
    """The watchdog's period; 0 where there is none, or it is for another process."""
    period, owner = (
        environment.get(_WATCHDOG_VARIABLE, ""),
        environment.get(_WATCHDOG_PID_VARIABLE, ""),
    )
    if not (period.isascii() and period.isdigit()) or owner not in ("", str(os.getpid())):
        return 0.0
    return int(period) / 1_000_000


def _status_fields(text: str) -> tuple[str, ...]:
    line = " ".join(text.split())
    return (f"STATUS={line}",) if line else ()


class Watchdog:
    """Signs of life, from the scheduler's own thread: who does not turn gives none.

    A small thread only asks for a turn, so that a service with nothing to do turns too.
    """

    def __init__(self, systemd: SystemdNotifier, clock: Clock, wake: Callable[[], None]) -> None:
        self._systemd = systemd
        self._clock = clock
        self._wake = wake
        self._pause = systemd.watchdog_seconds / _SIGNALS_PER_PERIOD
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


WATCHDOG_SECONDS = 180


class InvalidUnitValue(ValueError):
    """Something that no unit can hold."""


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """What is to be started. `environment` is written into the unit: nothing secret."""

    program: tuple[str, ...]
    home: Path
    # Where names of files in the settings begin that are not whole.
    folder: Path
    config: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def render_unit(plan: UnitPlan) -> str:
    """The whole unit."""
    given = ["--home", str(plan.home)]
    if plan.config is not None:
        given += ["--config", str(plan.config)]
    program, *words = plan.program
    command = " ".join(
        [quote_executable(program), *map(quote_argument, (*words, *given, "service"))]
    )
    lines = [f"Environment={quote_word(f'{k}={v}')}" for k, v in sorted(plan.environment.items())]
    return f"""\
# Written by `hostler service install`. Your own changes belong into a drop-in:
# systemctl --user edit hostler
[Unit]
Description=Hostler: coding agents on GitHub issues
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
WorkingDirectory={format_path(plan.folder)}
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
{_join_lines(lines)}# Secrets: NAME=value lines in a file that you alone can read.
EnvironmentFile=-{format_path(plan.home / "environment")}
Restart=on-failure
RestartSec=5
# Bad settings do not become better by another start.
RestartPreventExitStatus=2
# Agents live on under their own supervisors; the next start takes them over.
KillMode=process
# One agent that is too large must not take all others with it.
OOMPolicy=continue
TimeoutStartSec=300
TimeoutStopSec=60
WatchdogSec={WATCHDOG_SECONDS}

[Install]
WantedBy=default.target
"""


def _join_lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def quote_word(word: str) -> str:
    """One word, whatever it holds. `%` means something to systemd everywhere."""
    _require_text(word)
    inside = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside.replace("%", "%%")}"'


def quote_argument(word: str) -> str:
    """One word of a command, where `$` means something too; in an assignment it does not."""
    return quote_word(word.replace("$", "$$"))


def quote_executable(word: str) -> str:
    """The program of a command. systemd runs what is written, but names it with `$` replaced."""
    if "$" in word:
        raise InvalidUnitValue(f"the path of the program has a $ in it: {word}")
    return quote_word(word)


def format_path(place: Path) -> str:
    """A path that stands alone: not quoted, and only `%` means something."""
    text = str(place)
    _require_text(text)
    if not place.is_absolute() or text != text.strip():
        raise InvalidUnitValue(f"not a path that a unit can name: {text!r}")
    return text.replace("%", "%%")


def _require_text(text: str) -> None:
    if not text.isprintable():
        raise InvalidUnitValue(f"a unit is made of printable lines: {text!r}")
