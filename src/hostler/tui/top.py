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
    """Show the screen until the user quits; return the exit code."""
    app = HostlerApp(ScreenState(), ScreenDeps(HomeSnapshots(home, settings), SystemClock()))
    with _close_on_signals(app) as received:
        run_on_terminal(app)
    return 128 + received[0] if received else 0


def render_once(home: Path, settings: Callable[[], Settings], columns: int) -> str:
    """Render the panels once as text, for terminals without cursor control."""
    outlook = HomeSnapshots(home, settings)
    try:
        return render_plain(ScreenState(), ScreenData(outlook.look()), columns)
    finally:
        outlook.forget()


@contextmanager
def _close_on_signals(app: HostlerApp) -> Iterator[list[int]]:
    """Close the screen on signals, which restores the terminal; yield the received signals."""
    received: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        received.append(number)
        app.close_soon()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stdout.flush()
