"""Repositories, agents and a service whose turns are the test's to make: no network, no process.

GitHub's looks and agents are played by threads that wait for a word; everything between them
(polls, admission, limiter, workers, drain, rows) is the real thing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from intake_yard import database

from hostler.checkouts.process import allow_children
from hostler.clock import FakeClock
from hostler.config.settings import Agent, Repo, Runtime, Settings
from hostler.errors import HostlerError
from hostler.governor.leases import release
from hostler.intake.repo_policy import RepoPolicy
from hostler.service.change_detection import SettingsFile
from hostler.service.context import AppContext
from hostler.service.polling.repo_poller import PollResult
from hostler.service.runner import ServiceRunner
from hostler.service.service_log import ServiceLog
from hostler.service.wiring import ServiceMode
from hostler.store import Store
from hostler.store.operator import (
    RESTART,
    CommandRow,
    CommandStatus,
    Operation,
    add_command,
    find_command,
    find_operation,
)
from hostler.store.outbox import open_writes
from hostler.store.runs import Run, RunState, change_run
from hostler.store.tasks import Task, TaskState, change_task, require_task
from hostler.telemetry.logs import LogDestinations
from hostler.workflows.commands import RESTART_SCOPES as OPERATIONS
from hostler.workflows.commands import current_restart, request_restart
from hostler.workflows.manual_tasks import TaskSubmission, submit_task

SCOPES = ("admission", "tasks", "outbox")
PATIENCE = 30.0


class FakeLooker:
    """Looks as the test says: at once, never, or in vain."""

    def __init__(self, fleet: Fleet, watch: RepoPolicy) -> None:
        self.watch = watch
        self._fleet = fleet

    def poll(self) -> PollResult:
        fleet, project = self._fleet, self.watch.project
        gate = fleet.hanging.get(project)
        with fleet.looked:
            fleet.looks.append(project)
            fleet.looked.notify_all()
        if gate is not None:
            assert gate.wait(PATIENCE)
        if project in fleet.broken:
            raise HostlerError("GitHub does not answer.")
        return PollResult()

    def stretch(self) -> float:
        return 1.0


class FakeSupervisor:
    """Agents that work until the test lets them go."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def supervise(self, run: Run) -> None:
        fleet = self._fleet
        with fleet.lock:
            fleet.at_work.add(run.task_id)
            fleet.most = max(fleet.most, len(fleet.at_work))
        fleet.begun.release()
        try:
            assert fleet.go(run.task_id).wait(PATIENCE)
        finally:
            with fleet.lock:
                fleet.at_work.discard(run.task_id)
        fleet.end(run)

    def resume(self, run: Run) -> None:
        self.supervise(run)


class FakeOutgoing:
    """Sends nothing: what is to be sent stays to be counted."""

    def start(self) -> None: ...
    def wake(self) -> None: ...
    def leave(self, _timeout: float) -> bool:
        return True


@dataclass
class Fleet:
    """One service for several repositories."""

    home: Path
    store: Store
    clock: FakeClock
    settings: Settings
    looks: list[str] = field(default_factory=list)
    hanging: dict[str, threading.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    at_work: set[str] = field(default_factory=set)
    most: int = 0
    told: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    looked: threading.Condition = field(default_factory=threading.Condition)
    gone: dict[str, threading.Event] = field(default_factory=dict)
    lines: StringIO = field(default_factory=StringIO)

    def go(self, task: str) -> threading.Event:
        with self.lock:
            return self.gone.setdefault(task, threading.Event())

    def service(
        self, mode: ServiceMode | None = None, file: SettingsFile | None = None
    ) -> ServiceRunner:
        """A service that has not begun."""
        logging = LogDestinations(self.clock, self.home / "logs", terminal=self.lines)
        app = AppContext(self.home, self.settings, self.store, hub=Any, environment={})
        service_log = ServiceLog(logging.log, self.told.append)
        return ServiceRunner(app, self.clock, service_log, mode, settings_file=file)

    def put(self, project: str) -> Task:
        """A task of a repository's project, queued."""
        with self.store.write(*SCOPES) as tx:
            return submit_task(tx, TaskSubmission(project, "job", "ann", cwd=str(self.home)))

    def state(self, task: Task) -> TaskState:
        with self.store.read() as tx:
            return require_task(tx, task.id).state

    def gate(self, task: Task) -> str:
        with self.store.read() as tx:
            return require_task(tx, task.id).gate or ""

    def end(self, run: Run) -> None:
        """What a worker stores when its agent is done, in one transaction."""
        with self.store.write(*SCOPES) as tx:
            after = {"state": RunState.ENDED.value, "outcome": "success"}
            assert change_run(tx, run.run, fence=run.fence, states=list(RunState), values=after)
            release(tx, run)
            task = require_task(tx, run.task_id)
            change_task(tx, task, replace(task, state=TaskState.DONE))

    def turn(self, service: ServiceRunner, times: int = 1) -> None:
        """What one event causes: a turn, and one more for the looks that it began."""
        for _ in range(times):
            service._turn()
            if self.settle(service) and not service._leaving.is_set():
                service._turn()

    def settle(self, service: ServiceRunner) -> int:
        """Until all looks that do not hang are over; how many there were."""
        moving = [
            one._poll
            for one in service._parts.orchestrators
            if one._poll is not None and one.project not in self.hanging
        ]
        assert not wait(moving, PATIENCE).not_done
        return len(moving)

    def until_looks(self, count: int) -> None:
        """Until so many looks have begun in all."""
        with self.looked:
            assert self.looked.wait_for(lambda: len(self.looks) >= count, PATIENCE)

    def started(self, count: int) -> None:
        """Until so many more agents are at work."""
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE)

    def let_go(self, service: ServiceRunner, *tasks: Task) -> None:
        """These agents are done, and their workers through."""
        workers = service._static_parts.workers
        futures = [workers._pending[name][1] for name in list(workers._pending)]
        for task in tasks:
            self.go(task.id).set()
        ended = {task.id for task in tasks}
        while self.at_work & ended:
            wait(futures, 0.01)
        done = [one for one in futures if one.done()]
        while len(done) < len(tasks):
            wait([one for one in futures if one not in done], PATIENCE, "FIRST_COMPLETED")
            done = [one for one in futures if one.done()]

    def ask_restart(self, repo: str = "octo/barn") -> None:
        """An operator's command, as it waits for the service."""
        stamp = "2026-01-01T00:00:00.000Z"
        waiting = CommandStatus.WAITING
        row = CommandRow("k1", repo, 7, 70, "ann", "restart", stamp, status=waiting)
        with self.store.write(*OPERATIONS) as tx:
            add_command(tx, row)
            assert request_restart(tx, "ann", row)

    def operation(self) -> Operation | None:
        with self.store.read() as tx:
            return find_operation(tx, RESTART)

    def under_way(self) -> bool:
        with self.store.read() as tx:
            return current_restart(tx) is not None

    def command(self) -> CommandStatus:
        with self.store.read() as tx:
            found = find_command(tx, "k1")
        assert found is not None
        return found.status

    def replies(self) -> list[tuple[str, int]]:
        with self.store.read() as tx:
            return [(row.repo_full_name, row.scope_number) for row in open_writes(tx)]

    def logged(self, event: str) -> int:
        return self.lines.getvalue().count(event)


def settings_of(*projects: str, **runtime: Any) -> Settings:
    """Repositories of these names, and one agent for all."""
    return Settings(
        repo={name: Repo(owner="octo", name=name, max_concurrent_slots=99) for name in projects},
        agent={"helper": Agent(kind="command", command=["x"], pool="p")},
        runtime=Runtime(**{"memory_floor_mb": 0, "max_global_agents": 99, **runtime}),
    )


MakeFleet = Callable[..., Fleet]


@contextmanager
def fleet_of(
    home: Path, patch: pytest.MonkeyPatch, *projects: str, **runtime: Any
) -> Iterator[Fleet]:
    """A fleet, and an end of everything that it began."""
    home.mkdir(parents=True, exist_ok=True)
    clock = FakeClock()
    with database(clock) as store:
        made = Fleet(home, store, clock, settings_of(*(projects or ("barn", "stable")), **runtime))
        parts = "hostler.service.wiring"
        patch.setattr(f"{parts}.RepoPoller", lambda _h, _d, watch, *_a: FakeLooker(made, watch))
        patch.setattr(f"{parts}.Supervisor", lambda *_a, **_k: FakeSupervisor(made))
        patch.setattr(f"{parts}._build_outbox_thread", lambda _deps: FakeOutgoing())
        services: list[ServiceRunner] = []
        make = made.service

        def service(*args: Any, **more: Any) -> ServiceRunner:
            services.append(make(*args, **more))
            return services[-1]

        made.service = service  # type: ignore[method-assign]
        try:
            yield made
        finally:
            for gate in (*made.hanging.values(), *made.gone.values()):
                gate.set()
            for one in services:
                for name in list(made.at_work):
                    made.go(name).set()
                one._leaving.set()
                one._end()
            allow_children()
