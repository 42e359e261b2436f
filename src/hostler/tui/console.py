"""`hostler console`: run the service and show its screen in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from hostler.clock import Clock, SystemClock
from hostler.service.context import AppContext
from hostler.service.runner import ServiceRunner
from hostler.service.tasks.control import TaskStopper
from hostler.tui.app import HostlerApp, LogLines, ScreenDeps, run_on_terminal
from hostler.tui.snapshot_source import ServiceSnapshots
from hostler.tui.state import ScreenState
from hostler.tui.terminal import Terminal


@dataclass(slots=True)
class Console:
    """The screen of a running service. `say` prints lines while the screen is closed."""

    say: Callable[[str], None]
    who: str
    clock: Clock = field(default_factory=SystemClock)
    terminal: Terminal = field(default_factory=Terminal)
    log: LogLines = field(default_factory=LogLines)
    show: Callable[[HostlerApp], None] = run_on_terminal
    _app: HostlerApp | None = None

    def tell(self, text: str) -> None:
        """Add a line to the log panel; print it if the screen is closed."""
        self.log.add(f"{datetime.now().astimezone():%H:%M:%S}  {text}")
        if self._app is None:
            self.say(text)

    def close(self) -> None:
        """Close the screen because the service was asked to stop."""
        app = self._app
        if app is not None:
            app.close_soon()

    def give_back(self) -> None:
        """Restore the terminal before an immediate exit."""
        if self._app is not None:
            self.terminal.give_back()

    def work(
        self, runner: ServiceRunner, look: Callable[[], bool], leave: Callable[[], None]
    ) -> None:
        """Run the service on a thread and the screen here; the end of one ends the other."""
        app = self._app = HostlerApp(ScreenState(console=True), self._means(runner))
        service = _Service(runner, look, self.close)
        service.start()
        try:
            self.show(app)
        finally:
            self._app = None
            if service.is_alive():
                leave()
            service.join()
        if service.error is not None:
            raise service.error

    def _means(self, runner: ServiceRunner) -> ScreenDeps:
        context = runner.app
        outlook = ServiceSnapshots(context.home, context.store, lambda: runner.app.settings)
        return ScreenDeps(
            outlook, self.clock, lambda task: self._stop(runner.app, task), log=self.log
        )

    def _stop(self, context: AppContext, task: str) -> str:
        grace = float(context.settings.runtime.stop_grace_seconds)
        stopper = TaskStopper(context.home, context.store, self.clock, grace, self.who)
        return ", ".join(f"{one.id}: {one.state.value}" for one in stopper.stop([task]))


class _Service(threading.Thread):
    """The thread of the service, and the error that ended it."""

    def __init__(
        self, runner: ServiceRunner, look: Callable[[], bool], ended: Callable[[], None]
    ) -> None:
        super().__init__(name="service")
        self._runner = runner
        self._look = look
        self._ended = ended
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._runner.run(self._look)
        except BaseException as error:  # raised again by the thread that waits for this one
            self.error = error
        finally:
            self._ended()
