"""The terminal itself: whether there is one, and how it is given back."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

# Out of everything that a screen asks of a terminal: keyboard, other screen, cursor, focus, paste,
# sizes, and lines that do not wrap.
_BACK = b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[0m"


def is_terminal() -> bool:
    """Whether a person can see and type here."""
    try:
        return all(os.isatty(one.fileno()) for one in (sys.stdin, sys.stdout, sys.stderr))
    except (AttributeError, OSError, ValueError):
        return False


def can_be_drawn_on(environment: Mapping[str, str]) -> bool:
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
            os.write(2, _BACK)
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
