"""One task seen through from here: by ourselves, or by the service that works on the home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.cli.leaving import Ear
from hostler.cli.output import note
from hostler.cli.service import note_time

if TYPE_CHECKING:
    from hostler.clock import Clock
    from hostler.service import House
    from hostler.service.following import Follower
    from hostler.store.tasks import Task
    from hostler.telemetry.logs import Log

# How often it is looked whether the service that does the work is still there.
PATIENCE_SECONDS = 5.0


def see_through(house: House, clock: Clock, log: Log, task: Task) -> Task:
    """Do the work, or watch the service that does it; the task when no agent is needed."""
    from hostler.errors import HomeLocked
    from hostler.service.following import Follower
    from hostler.service.presence import ONE_TASK
    from hostler.store.engine.locks import home_lock

    follower, told = Follower(house.store, note_time, {task.id}), None
    while True:
        try:
            with home_lock(house.home, clock, ONE_TASK):
                return _work(house, clock, log, task, follower)
        except HomeLocked as locked:
            holder = str(locked.holder or "Another process")
        if holder != told:
            told = holder
            note(f"{holder} works on this home and takes it.")
        rested = _watch(house, clock, task, follower)
        if rested is not None:
            return rested


def _work(house: House, clock: Clock, log: Log, task: Task, follower: Follower) -> Task:
    from hostler.checkouts.git import version as require_git
    from hostler.service import Duty, Journal, ServiceRunner
    from hostler.service.single import at_rest
    from hostler.service.stranding import Lookout, family_now

    if task.repo_full_name is not None:
        require_git()
    runner = ServiceRunner(house, clock, Journal(log, note_time), Duty(polls=False, only={task.id}))
    ear = Ear()
    ear.listen()
    ear.attach(runner)
    lookout = Lookout(lambda: family_now(house.store, task.id), note_time)

    def rested() -> bool:
        follower.look()
        return at_rest(house.store, task.id) is not None or lookout.look()

    runner.run(rested)
    return _present(house, task)


def _watch(house: House, clock: Clock, task: Task, follower: Follower) -> Task | None:
    """The task, when it is at rest; None after a while: perhaps nobody works here any more."""
    from hostler.service.single import at_rest

    end = clock.monotonic() + PATIENCE_SECONDS
    while True:
        mark = house.store.change_mark()
        follower.look()
        rested = at_rest(house.store, task.id)
        left = end - clock.monotonic()
        if rested is not None or left <= 0:
            return rested
        house.store.wait_for_change(mark, left)


def _present(house: House, task: Task) -> Task:
    from hostler.store.tasks import require_task

    with house.store.read() as tx:
        return require_task(tx, task.id)
