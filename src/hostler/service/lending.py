"""Waiting inside a run: its place is lent meanwhile, and comes back before all others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import TypeVar

from hostler.clock import Clock
from hostler.errors import HostlerError
from hostler.flows.lineage import ancestors, belongs
from hostler.governor import Policy, look_around
from hostler.governor import lend as lend_lease
from hostler.planner import graph_of, require_no_cycle
from hostler.service.resting import Rested, rested
from hostler.service.waits import WAITS_FOR, graph_with, waits_of
from hostler.store import Store, Transaction
from hostler.store.runs import LIVE, Run, RunState, find_run, lend_place, live_runs, want_back
from hostler.store.tasks import require_task

T = TypeVar("T")
# How long nothing of what is waited for moves, before a place that counts is lent once more.
STANDSTILL_SECONDS = 5.0

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
    policy: Policy | None = None,
) -> list[Rested]:
    """Until they are at rest. In a run, its place is lent, and had again at the return."""
    end = None if seconds is None else clock.monotonic() + seconds
    found = at_rest(store, names, enough)
    if found is not None:
        return found
    # Whoever waits for any of several is not held up by one that waits for it.
    needed = tuple(names) if enough is all or len(names) == 1 else ()
    lender = Lender(store, clock, run, names, needed, policy)
    if lender.lend():
        tell("The place of this run is lent while it waits.")
    try:
        return _until(store, clock, lambda: at_rest(store, names, enough), end, lender)
    finally:
        lender.come_back(tell)


def at_rest(store: Store, names: Collection[str], enough: Enough = all) -> list[Rested] | None:
    """Those at rest, when there are enough of them; None before that."""
    with store.read() as tx:
        found = rested(tx, names)
    known = {one.task.id for one in found}
    return found if enough(name in known for name in names) else None


class Lender:
    """The place of the run that waits here. Of several waits in one run, each is one.

    When one of them returns, the run has its place, and counts. The others may then wait for
    what cannot start without that place: they lend it again when nothing of it moves.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        run: str,
        names: Collection[str],
        needed: Collection[str],
        policy: Policy | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._run = run
        self._names = names
        self._needed = needed
        self._policy = policy
        self._stands_since: float | None = None

    def lend(self) -> bool:
        """Lend the place; whether there was one to lend. Refused if it would wait for itself.

        Both in one transaction: of two that want to wait for each other, one is told.
        """
        if not self._run:
            return False
        here = look_around()
        with self._store.write("admission") as tx:
            found = find_run(tx, self._run)
            if found is None:
                return False
            _require_others(tx, found, self._names)
            if found.state is not RunState.RUNNING:
                return False
            by = {**asdict(here.holder), WAITS_FOR: [*self._needed]}
            lent = lend_place(tx, self._run, json.dumps(by))
            if lent:
                lend_lease(tx, self._run, self._policy)
            return lent

    def look(self) -> float | None:
        """Lend again if need be; in how many seconds to look again."""
        if not self._run:
            return None
        with self._store.read() as tx:
            found = find_run(tx, self._run)
            stands = found is not None and found.lent_at is None and not self._moves(tx)
        now = self._clock.monotonic()
        if not stands:
            self._stands_since = None
        elif self._stands_since is None:
            self._stands_since = now
        elif now - self._stands_since >= STANDSTILL_SECONDS:
            self._stands_since = None
            self.lend()
        return STANDSTILL_SECONDS

    def come_back(self, tell: Callable[[str], None]) -> None:
        """Have the place again, if it is lent, before the agent goes on."""
        if not self._run or self._has_place(ask=True):
            return
        tell("Waiting for the place of this run.")
        _until(self._store, self._clock, lambda: self._has_place(ask=True), None)

    def _has_place(self, *, ask: bool) -> Run | None:
        """The run, when it counts, or when there is nothing to come back to."""
        with self._store.read() as tx:
            found = find_run(tx, self._run)
        if found is None or found.state not in LIVE:
            raise WaitOver(f"The run {self._run} has ended meanwhile.")
        if found.lent_at is None:
            return found
        if ask and found.back_wanted_at is None:
            with self._store.write("admission") as tx:
                want_back(tx, self._run)
        return None

    def _moves(self, tx: Transaction) -> bool:
        """Whether an agent is at work on what is waited for, or on what that waits for."""
        wanted = {*graph_of(tx, self._names), *self._names}
        others = [run for run in live_runs(tx) if run.lent_at is None and run.run != self._run]
        return any(belongs(tx, require_task(tx, run.task_id), wanted) for run in others)


def _require_others(tx: Transaction, run: Run, names: Collection[str]) -> None:
    """Refuse to wait for what waits for us: a task above, one that depends on it, or a waiter."""
    graph = graph_with(tx, names, waits_of(live_runs(tx)))
    for name in (run.task_id, *ancestors(tx, require_task(tx, run.task_id))):
        require_no_cycle(graph, name, names)


def _until(
    store: Store,
    clock: Clock,
    seen: Callable[[], T | None],
    end: float | None,
    lender: Lender | None = None,
) -> T:
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
        again = lender.look() if lender else None
        store.wait_for_change(mark, min((one for one in (left, again) if one), default=None))
