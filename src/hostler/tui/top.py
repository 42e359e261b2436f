"""`hostler top`: a screen that only looks."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.clock import SystemClock
from hostler.config.settings import Settings
from hostler.tui.app import HostlerApp, Means, run_on_terminal
from hostler.tui.drawing import plain_text
from hostler.tui.outlooks import HomeOutlook
from hostler.tui.state import News, Screen

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def watch(home: Path, settings: Callable[[], Settings]) -> int:
    """Show the house until somebody quits; the exit code."""
    app = HostlerApp(Screen(), Means(HomeOutlook(home, settings), SystemClock()))
    with _heard(app) as heard:
        run_on_terminal(app)
    return 128 + heard[0] if heard else 0


def tell_once(home: Path, settings: Callable[[], Settings], columns: int) -> str:
    """The panels as text, for where nothing can be drawn."""
    outlook = HomeOutlook(home, settings)
    try:
        return plain_text(Screen(), News(outlook.look()), columns)
    finally:
        outlook.forget()


@contextmanager
def _heard(app: HostlerApp) -> Iterator[list[int]]:
    """Signals close the screen, so that the terminal is as it was."""
    heard: list[int] = []

    def hear(number: int, _frame: Any) -> None:
        heard.append(number)
        app.close_soon()

    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stdout.flush()
