"""A screen without a terminal: Textual's own, with an outlook that shows what a test gives it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from hostler.clock import FakeClock
from hostler.tui.app import HostlerApp, ScreenDeps

PATIENCE = 20.0


class Glass:
    """An outlook: what is put into it is seen; an error is raised."""

    def __init__(self, seen: Any) -> None:
        self._news = threading.Condition()
        self._count = 0
        self.seen = seen
        self.looks = 0
        self.forgotten = 0

    def put(self, seen: Any) -> None:
        """Somebody commits something."""
        with self._news:
            self.seen = seen
            self._count += 1
            self._news.notify_all()

    def mark(self) -> int:
        return self._count

    def look(self) -> Any:
        self.looks += 1
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen

    def wait(self, mark: int, seconds: float) -> bool:
        with self._news:
            return self._news.wait_for(lambda: self._count != mark, min(seconds, 0.05))

    def forget(self) -> None:
        self.forgotten += 1


def shown(app: HostlerApp) -> str:
    """What is painted, by Textual itself."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)


async def until(pilot: Pilot[None], seen: Callable[[], object]) -> None:
    """Let messages pass until something is so."""
    clock = asyncio.get_running_loop().time
    end = clock() + PATIENCE
    while not seen():
        assert clock() < end, shown(pilot.app)  # type: ignore[arg-type]
        await pilot.pause()


def with_screen(
    screen: Any,
    means: ScreenDeps,
    act: Callable[[HostlerApp, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
) -> HostlerApp:
    """A screen for the length of an act; it begins with the first look."""

    async def run() -> HostlerApp:
        app = HostlerApp(screen, means)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.news.seen or app.news.trouble)
            await act(app, pilot)
        app.watcher.join()
        return app

    return asyncio.run(run())


def means(seen: Any, **more: Any) -> ScreenDeps:
    from datetime import UTC

    return ScreenDeps(Glass(seen), FakeClock(), zone=UTC, **more)
