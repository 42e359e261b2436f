"""The terminal: detect it, restore it, and open URLs in the user's browser."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from shutil import which
from typing import Any
from urllib.parse import urlsplit

# Out of everything that a screen asks of a terminal: keyboard, other screen, cursor, focus, paste,
# sizes, and lines that do not wrap.
_RESTORE_SEQUENCE = b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[0m"


def is_terminal() -> bool:
    """Whether a person can see and type here."""
    try:
        return all(os.isatty(one.fileno()) for one in (sys.stdin, sys.stdout, sys.stderr))
    except (AttributeError, OSError, ValueError):
        return False


def supports_cursor(environment: Mapping[str, str]) -> bool:
    """Whether a cursor can be moved there."""
    return environment.get("TERM", "dumb") not in ("", "dumb")


class Terminal:
    """How the terminal was before a screen came."""

    def __init__(self) -> None:
        self._kept: list[Any] | None = None
        with suppress(termios.error, OSError, ValueError):
            self._kept = termios.tcgetattr(sys.stdin.fileno())

    def give_back(self) -> None:
        """As it was, at once: for those who end without closing the screen."""
        with suppress(OSError):
            os.write(2, _RESTORE_SEQUENCE)
        if self._kept is not None:
            with suppress(termios.error, OSError, ValueError):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._kept)

    def is_gone(self) -> bool:
        """Whether it was closed."""
        if self._kept is None:
            return False
        try:
            termios.tcgetattr(sys.stdin.fileno())
        except (termios.error, OSError, ValueError):
            return True
        return False


_BROWSER_TIMEOUT_SECONDS = 10.0
FindProgram = Callable[[str], str | None]


def browser_command(
    url: str,
    environment: Mapping[str, str],
    platform: str = sys.platform,
    find: FindProgram = which,
) -> list[str] | None:
    """What shows a page; None: nothing here can, or it is no page."""
    if urlsplit(url).scheme not in ("http", "https"):
        return None
    named = environment.get("BROWSER", "").split(os.pathsep)[0]
    if named:
        return _named_browser(named, url)
    if platform == "darwin":
        return ["open", url]
    # Without a display only browsers for terminals are left, and this terminal is in use.
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return None
    opener = find("xdg-open")
    return [opener, url] if opener else None


def _named_browser(named: str, url: str) -> list[str] | None:
    try:
        words = shlex.split(named)
    except ValueError:
        return None
    if any("%s" in word for word in words):
        return [word.replace("%s", url) for word in words]
    return [*words, url] if words else None


def open_page(url: str) -> bool:
    """Show a page; False: it cannot be shown here. It never touches this terminal."""
    command = browser_command(url, os.environ)
    if command is None:
        return False
    quiet = subprocess.DEVNULL
    try:
        started = subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
    except OSError:
        return False
    try:
        return started.wait(_BROWSER_TIMEOUT_SECONDS) == 0
    except subprocess.TimeoutExpired:
        # It goes on as long as the browser does: that is as good as a yes.
        return True
