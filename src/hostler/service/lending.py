"""Waiting inside a run: its place is lent meanwhile, and comes back before all others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import TypeVar

from hostler.clock import Clock
from hostler.errors import HostlerError
from hostler.flows.lineage import ancestors
from hostler.governor import lend as lend_lease
from hostler.governor import look_around
from hostler.planner import graph_of, require_no_cycle
from hostler.service.resting import Rested, rested
from hostler.store import Store
from hostler.store.runs import LIVE, Run, RunState, find_run, lend_place, want_back
from hostler.store.tasks import require_task

T = TypeVar("T")

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
    _require_others(store, run, names)
    lent = bool(run) and _lend(store, run)
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


def _require_others(store: Store, run: str, names: Collection[str]) -> None:
    """Refuse to wait for what waits for us: a task of ours above, or one that depends on it."""
    with store.read() as tx:
        found = find_run(tx, run) if run else None
        if found is None:
            return
        graph = graph_of(tx, names)
        for name in (found.task_id, *ancestors(tx, require_task(tx, found.task_id))):
            require_no_cycle(graph, name, names)


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
