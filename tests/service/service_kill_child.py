"""A service in a process of its own, which stops at a step until it is told to go on, or killed."""

from __future__ import annotations

import os
import select
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from service_kill_nursery import Nursery
from service_kill_processes import PATIENCE, gone, kill

from hostler.clock import SystemClock
from hostler.config.settings import Settings
from hostler.runs import dispatcher
from hostler.runs.dispatcher import Spawned, spawn
from hostler.service.context import open_context
from hostler.service.runner import ServiceRunner
from hostler.service.scheduling.workers import WorkerJob
from hostler.service.service_log import ServiceLog
from hostler.shim import processes
from hostler.store import Store
from hostler.store.engine.locks import home_lock
from hostler.telemetry.logs import EventLog, LogDestinations

T = TypeVar("T")
# A step of the shim: it has said that it has its lock, and the service has not heard it yet.
ANNOUNCED = "announced"


@dataclass(frozen=True)
class Stop:
    """Where a service stops: the first time that this step is done, about something like this.

    `passed` is the run that it passes: one whose shim was killed may go on for some steps.
    """

    step: str
    about: str = ""
    passed: str = ""

    def fits(self, step: str, about: str) -> bool:
        return step == self.step and about.startswith(self.about) and about != self.passed


@dataclass(frozen=True)
class Orders:
    """What a service is started with; `later` is how far its clock is ahead of ours."""

    home: Path
    settings: Settings
    later: float = 0.0
    locked: bool = True
    stop: Stop | None = None


class ShiftedClock(SystemClock):
    """The machine's clock, some seconds later."""

    def __init__(self, later: float) -> None:
        self._later = timedelta(seconds=later)

    def now(self) -> datetime:
        return super().now() + self._later


class ServiceChild:
    """One service, as the test sees it."""

    def __init__(self, nursery: Nursery, orders: Orders) -> None:
        self.told: list[str] = []
        self._stops: list[str] = []
        self._over: dict[str, str] = {}
        self._shims: dict[str, processes.Process] = {}
        self._left = False
        self.process, self._pipe = nursery.birth(orders)

    def arm(self, stop: Stop | None) -> None:
        """Where it stops next."""
        if stop is not None:
            self._pipe.send(stop)

    def poll(self) -> None:
        self._pipe.send("look")

    def go_on(self) -> None:
        self._pipe.send("go on")

    def stopped(self) -> str:
        """Wait until it has stopped at its step; what that was about."""
        return self.until(lambda: self._stops.pop() if self._stops else None, "a step")

    def stored_shim(self, run: str) -> processes.Process | None:
        """Return the shim that it started for a run that it has told of, if it did."""
        with suppress(EOFError, ConnectionResetError):  # a service that was killed
            while self._pipe.poll():
                self._take(self._pipe.recv())
        return self._shims.get(run)

    def done_with(self, job: str) -> str:
        """Wait until a worker is done with a run; the name of the error, or `well`."""
        return self.until(lambda: self._over.get(job), f"end of {job}")

    def until(self, seen: Callable[[], T | None], what: str) -> T:
        """What a function finds; it is asked again after every commit of the service."""
        end = SystemClock().monotonic() + PATIENCE
        while not (found := seen()):
            left = end - SystemClock().monotonic()
            assert left > 0 and self._pipe.poll(left), f"no {what}; told: {self.told}"
            self._take(self._pipe.recv())
        return found

    def leave(self) -> None:
        """Let it end as somebody would who asks for it."""
        self._pipe.send("leave")
        self.until(lambda: self._left, "leaving")

    def kill(self) -> None:
        """End it as a power cut of the process would; once is enough."""
        if not gone(self.process):
            kill(self.process)

    def send(self, number: int) -> None:
        """A signal."""
        assert processes.send_signal(self.process, number), "the service is gone"

    def _take(self, message: tuple[str, Any]) -> None:
        kind, text = message
        assert kind != "failed", text
        if kind == "shim":
            run, process = text
            self._shims[run] = process
        elif kind == "told":
            self.told.append(text)
        elif kind == "stopped":
            self._stops.append(text)
        elif kind == "over":
            job, how = text.split()
            self._over[job] = how
        elif kind == "left":
            self._left = True


class Diary(ServiceLog):
    """A journal that tells the test what became of each job."""

    def __init__(self, log: EventLog, inside: Inside) -> None:
        super().__init__(log, lambda text: inside.say("told", text))
        self._inside = inside

    def ended(self, job: WorkerJob) -> None:
        super().ended(job)
        self._inside.say("over", f"{job.name} well")

    def troubled(self, job: WorkerJob, error: BaseException) -> None:
        super().troubled(job, error)
        self._inside.say("over", f"{job.name} {type(error).__name__}")


class Inside:
    """The service's side of the pipe."""

    def __init__(self, pipe: Connection, stop: Stop | None) -> None:
        self._pipe = pipe
        self._stop = stop
        self._mutex = threading.Lock()
        self._onward = threading.Semaphore(0)

    def say(self, kind: str, text: object = "") -> None:
        with self._mutex:
            self._pipe.send((kind, text))

    def spawn(self, run: str, folder: str, environment: Mapping[str, str]) -> Spawned:
        """Start a shim and tell the test which process it is."""
        spawned = spawn(run, folder, environment)
        self.say("shim", (run, processes.read_process(spawned.pid)))
        if self._stop is not None and self._stop.fits(ANNOUNCED, run):
            assert select.select([spawned._pipes[1]], [], [], PATIENCE)[0], "a silent shim"
            self.observe(ANNOUNCED, run)
        return spawned

    def observe(self, step: str, about: str) -> None:
        with self._mutex:
            here = self._stop is not None and self._stop.fits(step, about)
            if here:
                self._stop = None
        if here:
            self.say("stopped", about)
            self._onward.acquire()

    def obey(self, runner: ServiceRunner) -> None:
        """Until the test is gone."""
        while True:
            try:
                order: Any = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(1)
            if isinstance(order, Stop):
                with self._mutex:
                    self._stop = order
            elif order == "look":
                runner.poll_all_soon()
            elif order == "go on":
                self._onward.release()
            else:
                runner.leave()

    def tell_commits(self, store: Store) -> None:
        mark = -1
        while True:
            mark = store.wait_for_change(mark, None)
            self.say("news")


def serve(pipe: Connection, orders: Orders) -> None:
    """A service until it is told to leave, as the command starts it."""
    inside = Inside(pipe, orders.stop)
    try:
        _serve(inside, orders)
        inside.say("left")
    except BaseException:
        inside.say("failed", traceback.format_exc())
    # As the command does: a thread that waits for something must not keep us.
    os._exit(0)


def _serve(inside: Inside, orders: Orders) -> None:
    clock = ShiftedClock(orders.later)
    log = LogDestinations(clock, orders.home / "logs").log
    dispatcher.spawn = inside.spawn
    lock = home_lock(orders.home, clock) if orders.locked else nullcontext()
    with open_context(orders.home, orders.settings, clock) as app, lock:
        runner = ServiceRunner(app, clock, Diary(log, inside), observe=inside.observe)
        for work, given in ((inside.obey, runner), (inside.tell_commits, app.store)):
            threading.Thread(target=work, args=(given,), daemon=True).start()
        runner.run()
