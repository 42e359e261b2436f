"""Run the service or one task in the foreground: signals, output, and the API beside it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from hostler.cli.output import DIM, colourise, print_line, print_note

if TYPE_CHECKING:
    from hostler.clock import Clock
    from hostler.config.loader import LoadedSettings
    from hostler.config.settings import Settings
    from hostler.service.context import AppContext
    from hostler.service.runner import ServiceRunner
    from hostler.service.systemd import SystemdNotifier
    from hostler.service.tasks.summary import TaskFollower
    from hostler.store.tasks import Task
    from hostler.telemetry.logs import EventLog
    from hostler.web.server import RunningApi


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Whether to serve the dashboard and API (None: as in the settings), and where."""

    web: bool | None = None
    listen: str = ""

    def options(self) -> list[str]:
        """Return the command-line options that say the same."""
        if self.listen:
            return ["--web-listen", self.listen]
        return [] if self.web is None else ["--web" if self.web else "--no-web"]


@contextmanager
def serve_api(
    runner: ServiceRunner, log: EventLog, wanted: ApiOptions
) -> Iterator[RunningApi | None]:
    """Serve the API for the block; yield None if it is not wanted."""
    app = runner.app
    if not (app.settings.web.enabled if wanted.web is None else wanted.web):
        yield None
        return
    from hostler.cli.commands.web import start_api

    def settings() -> Settings:
        return runner.app.settings

    with start_api(app.home, app.store, settings, log, wanted.listen) as served:
        yield served


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# With a live screen, SIGHUP means that the terminal was closed.
STOP_SIGNALS_WITH_HANGUP = (*STOP_SIGNALS, signal.SIGHUP)


class Stoppable(Protocol):
    """Something that can be asked to stop."""

    def leave(self, *, stop_agents: bool = False) -> None: ...


class SignalHandler:
    """Asks the attached worker to stop on the first signal; exits immediately on the second.

    The next start recovers what an immediate exit interrupted. A worker attached after the first
    signal is asked to stop at once.
    """

    def __init__(
        self,
        *,
        stop_agents: bool = False,
        told: Callable[[], None] = lambda: None,
        cut_off: Callable[[], None] = lambda: None,
        signals: Sequence[signal.Signals] = STOP_SIGNALS,
    ) -> None:
        """`cut_off` is called before an immediate exit."""
        self._stop_agents = stop_agents
        self._told = told
        self._cut_off = cut_off
        self._signals = signals
        self._worker: Stoppable | None = None
        self.asked = False

    def listen(self) -> None:
        """Handle signals from now on, including those that were blocked before this program ran."""
        for number in self._signals:
            signal.signal(number, self._handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)

    def attach(self, worker: Stoppable) -> None:
        """Set the worker to stop on a signal."""
        # In this order: a signal in between sees one or the other.
        self._worker = worker
        if self.asked:
            worker.leave(stop_agents=self._stop_agents)

    def leaves(self) -> bool:
        """Return whether a stop was requested."""
        return self.asked

    def ask(self) -> None:
        """Request a stop, like the first Ctrl-C."""
        if not self.asked:
            self._handle(signal.SIGINT, None)

    def _handle(self, number: int, _frame: Any) -> None:
        if self.asked:
            if number == signal.SIGHUP:
                # A closing terminal may send SIGHUP several times.
                return
            self._cut_off()
            os._exit(128 + number)
        self.asked = True
        self._told()
        # In another thread: this one may hold the lock that is needed.
        threading.Thread(target=self._leave, args=(number, self._worker)).start()

    def _leave(self, number: int, worker: Stoppable | None) -> None:
        if number == signal.SIGINT and sys.stdin.isatty():
            agents = "stopping agents too" if self._stop_agents else "agents keep running"
            print_note(f"Stopping; {agents}. Press Ctrl-C again to exit immediately.")
        if worker is not None:
            worker.leave(stop_agents=self._stop_agents)


def exit_now(code: int) -> NoReturn:
    """Exit without waiting for threads that may hang on the network."""
    # The terminal may be closed already.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


LoopCallback = Callable[[], bool]
Callback = Callable[[], None]


def print_timed(text: str) -> None:
    """Print a line with the time, and flush it."""
    from datetime import datetime

    try:
        print_line(f"{colourise(f'{datetime.now().astimezone():%H:%M:%S}', DIM)}  {text}")
        sys.stdout.flush()
    except OSError:
        # The reader is gone or the disk is full: keep working without output.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


def _do_nothing() -> None:
    """Default of optional callbacks."""


def _run_service(runner: ServiceRunner, after_iteration: LoopCallback, _leave: Callback) -> None:
    """Run the service in this thread."""
    runner.run(after_iteration)


@dataclass(frozen=True, slots=True)
class ServiceUi:
    """How a service is shown: as lines, or on a live screen.

    `work` runs the runner, and calls its last argument to request a stop. `asked` is called when
    a stop is requested, `cut_off` before an immediate exit. `lines`: log lines may be printed in
    between. `web`: whether the API is served too.
    """

    command: str = "service"
    tell: Callable[[str], None] = print_timed
    work: Callable[[ServiceRunner, LoopCallback, Callback], None] = _run_service
    asked: Callback = _do_nothing
    cut_off: Callback = _do_nothing
    lines: bool = True
    web: ApiOptions = field(default_factory=ApiOptions)

    @property
    def reloads(self) -> bool:
        """Whether SIGHUP reloads the settings; with a live screen it means a closed terminal."""
        return self.lines

    def signal_handler(self, told: Callback, *, stop_agents: bool) -> SignalHandler:
        """Build the signal handler; `told` is called on the first signal."""

        def asked() -> None:
            told()
            self.asked()

        numbers = STOP_SIGNALS if self.reloads else STOP_SIGNALS_WITH_HANGUP
        return SignalHandler(
            stop_agents=stop_agents, told=asked, cut_off=self.cut_off, signals=numbers
        )


@dataclass(frozen=True, slots=True)
class ServiceSession:
    """What stays the same when the service restarts within this process."""

    loaded: LoadedSettings
    systemd: SystemdNotifier
    signal_handler: SignalHandler
    ui: ServiceUi
    once: bool


def note_timed(text: str) -> None:
    """Print a line with the time on standard error."""
    from datetime import datetime

    print_note(f"{colourise(f'{datetime.now().astimezone():%H:%M:%S}', DIM, sys.stderr)}  {text}")


# How often to check whether the service that does the work still runs.
LOCK_RETRY_SECONDS = 5.0


def run_task_to_end(app: AppContext, clock: Clock, log: EventLog, task: Task) -> Task:
    """Run the task, or follow the service that runs it; return the task once it is settled."""
    from hostler.errors import HomeLocked
    from hostler.service.context import ONE_TASK_PURPOSE
    from hostler.service.tasks.summary import TaskFollower
    from hostler.store.engine.locks import home_lock

    follower, reported = TaskFollower(app.store, note_timed, {task.id}), None
    while True:
        try:
            with home_lock(app.home, clock, ONE_TASK_PURPOSE):
                return _run_here(app, clock, log, task, follower)
        except HomeLocked as locked:
            holder = str(locked.holder or "Another process")
        if holder != reported:
            reported = holder
            print_note(f"{holder} is running and will do the work.")
        settled = _follow_service(app, clock, task, follower)
        if settled is not None:
            return settled


def _run_here(
    app: AppContext, clock: Clock, log: EventLog, task: Task, follower: TaskFollower
) -> Task:
    from hostler.checkouts.git import require_version as require_git
    from hostler.service.runner import ServiceRunner
    from hostler.service.service_log import ServiceLog
    from hostler.service.tasks.foreground import UnservedWaitMonitor, find_settled_task, read_family
    from hostler.service.wiring import ServiceMode

    if task.repo_full_name is not None:
        require_git()
    runner = ServiceRunner(
        app, clock, ServiceLog(log, note_timed), ServiceMode(polls=False, only={task.id})
    )
    signal_handler = SignalHandler()
    signal_handler.listen()
    signal_handler.attach(runner)
    monitor = UnservedWaitMonitor(lambda: read_family(app.store, task.id), note_timed)

    def is_settled() -> bool:
        follower.report_changes()
        return find_settled_task(app.store, task.id) is not None or monitor.check()

    runner.run(is_settled)
    return _read_task(app, task)


def _follow_service(
    app: AppContext, clock: Clock, task: Task, follower: TaskFollower
) -> Task | None:
    """Follow the task for a while; return it if it is settled, else None."""
    from hostler.service.tasks.foreground import find_settled_task

    end = clock.monotonic() + LOCK_RETRY_SECONDS
    while True:
        mark = app.store.change_mark()
        follower.report_changes()
        settled = find_settled_task(app.store, task.id)
        left = end - clock.monotonic()
        if settled is not None or left <= 0:
            return settled
        app.store.wait_for_change(mark, left)


def _read_task(app: AppContext, task: Task) -> Task:
    from hostler.store.tasks import require_task

    with app.store.read() as tx:
        return require_task(tx, task.id)
