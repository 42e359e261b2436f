"""Waiting inside a run: its place is lent meanwhile, and comes back before all others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from itertools import chain
from typing import TypeVar

from hostler.clock import Clock
from hostler.errors import HostlerError
from hostler.flows.lineage import ancestors
from hostler.governor import lend as lend_lease
from hostler.governor import look_around
from hostler.planner import graph_of, require_no_cycle
from hostler.service.resting import Rested, rested
from hostler.store import Store, Transaction
from hostler.store.runs import LIVE, Run, RunState, find_run, lend_place, live_runs, want_back
from hostler.store.tasks import require_task

T = TypeVar("T")
WAITS_FOR = "waits_for"

# How many of the tasks are to be at rest: `all` or `any` of them.
Enough = Callable[[Iterable[bool]], bool]


class WaitOver(HostlerError):
    """The wait ended before the tasks did."""

    exit_code = 75


def wait_for(
    store: Store,
    clock: Clock,
    names: Collection[str],
    run: str = "",
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
    enough: Enough = all,
) -> list[Rested]:
    """Until they are at rest. In a run, its place is lent, and had again at the return."""
    end = None if seconds is None else clock.monotonic() + seconds

    def seen() -> list[Rested] | None:
        return at_rest(store, names, enough)

    found = seen()
    if found is not None:
        return found
    # Whoever waits for any of several is not held up by one that waits for it.
    needed = tuple(names) if enough is all or len(names) == 1 else ()
    lent = bool(run) and _lend(store, run, names, needed)
    if lent:
        tell("The place of this run is lent while it waits.")
    try:
        return _until(store, clock, seen, end)
    finally:
        if lent:
            _come_back(store, clock, run, tell)


def at_rest(store: Store, names: Collection[str], enough: Enough = all) -> list[Rested] | None:
    """Those at rest, when there are enough of them; None before that."""
    with store.read() as tx:
        found = rested(tx, names)
    known = {one.task.id for one in found}
    return found if enough(name in known for name in names) else None


def _lend(store: Store, run: str, names: Collection[str], needed: Collection[str]) -> bool:
    """Lend the place of a run; whether there was one to lend. Refused if it would wait for itself.

    Both in one transaction: of two that want to wait for each other, one is told.
    """
    here = look_around()
    with store.write("admission") as tx:
        found = find_run(tx, run)
        if found is None:
            return False
        _require_others(tx, found, names)
        if found.state is not RunState.RUNNING:
            return False
        lent = lend_place(tx, run, json.dumps({**asdict(here.holder), WAITS_FOR: [*needed]}))
        if lent:
            lend_lease(tx, run)
        return lent


def _require_others(tx: Transaction, run: Run, names: Collection[str]) -> None:
    """Refuse to wait for what waits for us: a task above, one that depends on it, or a waiter."""
    waits = waits_of(live_runs(tx))
    reached = graph_of(tx, {*names, *waits, *chain.from_iterable(waits.values())})
    graph = {name: (*reached.get(name, ()), *waits.get(name, ())) for name in {*reached, *waits}}
    for name in (run.task_id, *ancestors(tx, require_task(tx, run.task_id))):
        require_no_cycle(graph, name, names)


def waits_of(runs: Iterable[Run]) -> dict[str, tuple[str, ...]]:
    """Tasks whose agents wait now, and for which tasks."""
    waiting = (run for run in runs if run.lent_at and not run.back_wanted_at)
    return {run.task_id: _waits_for(run) for run in waiting}


def _waits_for(run: Run) -> tuple[str, ...]:
    names = json.loads(run.lent_by or "{}").get(WAITS_FOR, ())
    return tuple(name for name in names if isinstance(name, str))


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
