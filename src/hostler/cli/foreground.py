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
    from hostler.config.settings import Settings
    from hostler.service.runner import ServiceRunner
    from hostler.telemetry.logs import EventLog
    from hostler.web.server import RunningApi
if TYPE_CHECKING:
    from hostler.config.loader import LoadedSettings
    from hostler.service.runner import ServiceRunner
    from hostler.service.systemd import SystemdNotifier
if TYPE_CHECKING:
    from hostler.clock import Clock
    from hostler.service.context import AppContext
    from hostler.service.tasks.summary import TaskFollower
    from hostler.store.tasks import Task
    from hostler.telemetry.logs import EventLog


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Whether the API is served (None: as the settings say), and where."""

    web: bool | None = None
    listen: str = ""

    def options(self) -> list[str]:
        """The same for the next program."""
        if self.listen:
            return ["--web-listen", self.listen]
        return [] if self.web is None else ["--web" if self.web else "--no-web"]


@contextmanager
def serve_api(
    runner: ServiceRunner, log: EventLog, wanted: ApiOptions
) -> Iterator[RunningApi | None]:
    """The API for the length of a block; None where nobody wants it."""
    house = runner.house
    if not (house.settings.web.enabled if wanted.web is None else wanted.web):
        yield None
        return
    from hostler.cli.commands.web import start_api

    def settings() -> Settings:
        return runner.house.settings

    with start_api(house.home, house.store, settings, log, wanted.listen) as served:
        yield served


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# On a screen: the terminal was closed.
STOP_SIGNALS_WITH_HANGUP = (*STOP_SIGNALS, signal.SIGHUP)


class Stoppable(Protocol):
    """Somebody who can be asked to leave."""

    def leave(self, *, stop_agents: bool = False) -> None: ...


class SignalHandler:
    """The first signal asks to leave; the second leaves now: what is cut off is taken up again.

    Whoever works is attached; one that comes after the signal leaves at once.
    """

    def __init__(
        self,
        *,
        stop_agents: bool = False,
        told: Callable[[], None] = lambda: None,
        cut_off: Callable[[], None] = lambda: None,
        signals: Sequence[signal.Signals] = STOP_SIGNALS,
    ) -> None:
        """`cut_off`: what is done before it leaves at once."""
        self._stop_agents = stop_agents
        self._told = told
        self._cut_off = cut_off
        self._signals = signals
        self._worker: Stoppable | None = None
        self.asked = False

    def listen(self) -> None:
        """Hear signals from now on, also those that the program before us held back for us."""
        for number in self._signals:
            signal.signal(number, self._hear)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)

    def attach(self, worker: Stoppable) -> None:
        """This one is to leave when it is asked for."""
        # In this order: a signal in between finds one or the other.
        self._worker = worker
        if self.asked:
            worker.leave(stop_agents=self._stop_agents)

    def leaves(self) -> bool:
        """Whether we were asked to leave."""
        return self.asked

    def ask(self) -> None:
        """Ask as the first Ctrl-C does."""
        if not self.asked:
            self._hear(signal.SIGINT, None)

    def _hear(self, number: int, _frame: Any) -> None:
        if self.asked:
            if number == signal.SIGHUP:
                # A terminal that goes says so more than once; nobody is impatient.
                return
            self._cut_off()
            os._exit(128 + number)
        self.asked = True
        self._told()
        # From another thread: here we may have interrupted the very lock that is needed.
        threading.Thread(target=self._leave, args=(number, self._worker)).start()

    def _leave(self, number: int, worker: Stoppable | None) -> None:
        if number == signal.SIGINT and sys.stdin.isatty():
            ends = "agents are ended" if self._stop_agents else "agents at work go on"
            print_note(f"Leaving; {ends}. Ctrl-C once more: leave now, whatever is under way.")
        if worker is not None:
            worker.leave(stop_agents=self._stop_agents)


def exit_now(code: int) -> NoReturn:
    """End the process: a thread that still waits for a network must not keep us."""
    # A terminal that was closed takes no last word.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


LoopCallback = Callable[[], bool]
Callback = Callable[[], None]


def print_timed(text: str) -> None:
    """A line with its time, at once."""
    from datetime import datetime

    try:
        print_line(f"{colourise(f'{datetime.now().astimezone():%H:%M:%S}', DIM)}  {text}")
        sys.stdout.flush()
    except OSError:
        # Nobody reads any more, or the disk of a log is full: the work goes on.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


def _do_nothing() -> None:
    """Nothing is to be done."""


def _run_service(runner: ServiceRunner, look: LoopCallback, _leave: Callback) -> None:
    """The service, here."""
    runner.run(look)


@dataclass(frozen=True, slots=True)
class ServiceUi:
    """Who shows a service.

    `work` has the runner work, and calls the last argument to have it leave. `asked` hears that
    it was asked to leave, `cut_off` that it ends now. `lines`: log lines may stand between ours.
    `web`: whether the API is served beside it.
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
        """Whether SIGHUP asks for the settings; on a screen it says that the terminal is gone."""
        return self.lines

    def signal_handler(self, told: Callback, *, stop_agents: bool) -> SignalHandler:
        """Whoever hears signals for it; `told` hears of them too."""

        def asked() -> None:
            told()
            self.asked()

        numbers = STOP_SIGNALS if self.reloads else STOP_SIGNALS_WITH_HANGUP
        return SignalHandler(
            stop_agents=stop_agents, told=asked, cut_off=self.cut_off, signals=numbers
        )


@dataclass(frozen=True, slots=True)
class ServiceSession:
    """What one service after another works with, until the program leaves."""

    loaded: LoadedSettings
    systemd: SystemdNotifier
    signal_handler: SignalHandler
    ui: ServiceUi
    once: bool


def note_timed(text: str) -> None:
    """The same on standard error, where standard output is for a result."""
    from datetime import datetime

    print_note(f"{colourise(f'{datetime.now().astimezone():%H:%M:%S}', DIM, sys.stderr)}  {text}")


# How often it is looked whether the service that does the work is still there.
LOCK_RETRY_SECONDS = 5.0


def run_task_to_end(house: AppContext, clock: Clock, log: EventLog, task: Task) -> Task:
    """Do the work, or watch the service that does it; the task when no agent is needed."""
    from hostler.errors import HomeLocked
    from hostler.service.context import ONE_TASK_PURPOSE
    from hostler.service.tasks.summary import TaskFollower
    from hostler.store.engine.locks import home_lock

    follower, told = TaskFollower(house.store, note_timed, {task.id}), None
    while True:
        try:
            with home_lock(house.home, clock, ONE_TASK_PURPOSE):
                return _run_here(house, clock, log, task, follower)
        except HomeLocked as locked:
            holder = str(locked.holder or "Another process")
        if holder != told:
            told = holder
            print_note(f"{holder} works on this home and takes it.")
        rested = _follow_service(house, clock, task, follower)
        if rested is not None:
            return rested


def _run_here(
    house: AppContext, clock: Clock, log: EventLog, task: Task, follower: TaskFollower
) -> Task:
    from hostler.checkouts.git import require_version as require_git
    from hostler.service.runner import ServiceRunner
    from hostler.service.service_log import ServiceLog
    from hostler.service.tasks.foreground import UnservedWaitMonitor, find_settled_task, read_family
    from hostler.service.wiring import ServiceMode

    if task.repo_full_name is not None:
        require_git()
    runner = ServiceRunner(
        house, clock, ServiceLog(log, note_timed), ServiceMode(polls=False, only={task.id})
    )
    signal_handler = SignalHandler()
    signal_handler.listen()
    signal_handler.attach(runner)
    lookout = UnservedWaitMonitor(lambda: read_family(house.store, task.id), note_timed)

    def rested() -> bool:
        follower.look()
        return find_settled_task(house.store, task.id) is not None or lookout.look()

    runner.run(rested)
    return _read_task(house, task)


def _follow_service(
    house: AppContext, clock: Clock, task: Task, follower: TaskFollower
) -> Task | None:
    """The task, when it is at rest; None after a while: perhaps nobody works here any more."""
    from hostler.service.tasks.foreground import find_settled_task

    end = clock.monotonic() + LOCK_RETRY_SECONDS
    while True:
        mark = house.store.change_mark()
        follower.look()
        rested = find_settled_task(house.store, task.id)
        left = end - clock.monotonic()
        if rested is not None or left <= 0:
            return rested
        house.store.wait_for_change(mark, left)


def _read_task(house: AppContext, task: Task) -> Task:
    from hostler.store.tasks import require_task

    with house.store.read() as tx:
        return require_task(tx, task.id)
