"""`hostler top`: show a home without changing it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.clock import SystemClock
from hostler.config.settings import Settings
from hostler.tui.app import HostlerApp, ScreenDeps, run_on_terminal
from hostler.tui.renderer import render_plain
from hostler.tui.snapshot_source import HomeSnapshots
from hostler.tui.state import ScreenData, ScreenState

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run_top(home: Path, settings: Callable[[], Settings]) -> int:
    """Show the house until somebody quits; the exit code."""
    app = HostlerApp(ScreenState(), ScreenDeps(HomeSnapshots(home, settings), SystemClock()))
    with _close_on_signals(app) as heard:
        run_on_terminal(app)
    return 128 + heard[0] if heard else 0


def render_once(home: Path, settings: Callable[[], Settings], columns: int) -> str:
    """The panels as text, for where nothing can be drawn."""
    outlook = HomeSnapshots(home, settings)
    try:
        return render_plain(ScreenState(), ScreenData(outlook.look()), columns)
    finally:
        outlook.forget()


@contextmanager
def _close_on_signals(app: HostlerApp) -> Iterator[list[int]]:
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
