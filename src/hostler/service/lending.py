"""Waiting inside a run: its place is lent meanwhile, and comes back before all others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import TypeVar

from hostler.clock import Clock
from hostler.errors import HostlerError
from hostler.governor import lend as lend_lease
from hostler.governor import look_around
from hostler.store import Store
from hostler.store.runs import LIVE, Run, RunState, find_run, lend_place, open_runs, want_back
from hostler.store.tasks import Task, TaskState, require_task

T = TypeVar("T")

# What a task waits for is not at rest; neither is one that waits for its time.
MOVING = frozenset({TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED})


class WaitOver(HostlerError):
    """The wait ended before the tasks did."""

    exit_code = 75


def at_rest(store: Store, names: Collection[str]) -> list[Task] | None:
    """The tasks, when nothing of them is under way any more; None before that."""
    with store.read() as tx:
        tasks = [require_task(tx, name) for name in names]
        busy = {run.task_id for run in open_runs(tx)}
    moving = any(task.state in MOVING or task.id in busy for task in tasks)
    return None if moving else tasks


def wait_for(
    store: Store,
    clock: Clock,
    names: Collection[str],
    run: str = "",
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Task]:
    """Until all of them are at rest. In a run, its place is lent, and had again at the return."""
    end = None if seconds is None else clock.monotonic() + seconds
    rested = at_rest(store, names)
    if rested is not None:
        return rested
    lent = bool(run) and _lend(store, run)
    if lent:
        tell("The place of this run is lent while it waits.")
    try:
        return _until(store, clock, lambda: at_rest(store, names), end)
    finally:
        if lent:
            _come_back(store, clock, run, tell)


def _lend(store: Store, run: str) -> bool:
    here = look_around()
    with store.write("admission") as tx:
        found = find_run(tx, run)
        if found is None or found.state is not RunState.RUNNING:
            return False
        lent = lend_place(tx, run, json.dumps(asdict(here.holder)))
        if lent:
            lend_lease(tx, run)
        return lent


def _come_back(store: Store, clock: Clock, run: str, tell: Callable[[str], None]) -> None:
    with store.write("admission") as tx:
        want_back(tx, run)
    tell("Waiting for the place of this run.")
    _until(store, clock, lambda: _has_place(store, run), None)


def _has_place(store: Store, run: str) -> Run | None:
    """The run, when it counts again, or when there is nothing to come back to."""
    with store.read() as tx:
        found = find_run(tx, run)
    if found is None or found.state not in LIVE:
        raise WaitOver(f"The run {run} has ended meanwhile.")
    return found if found.lent_at is None else None


def _until(store: Store, clock: Clock, seen: Callable[[], T | None], end: float | None) -> T:
    while True:
        mark = store.change_mark()
        found = seen()
        if found is not None:
            return found
        left = None if end is None else end - clock.monotonic()
        if left is not None and left <= 0:
            raise WaitOver(
                "They are not at rest yet.", safe="Nothing was changed.", remedy="Wait longer."
            )
        store.wait_for_change(mark, left)
