"""The queue as admission looks at it, and what holds each task of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hostler.governor.status import PoolStatus
from hostler.model import parse_stamp, stamp
from hostler.service.candidates import Held
from hostler.service.pages import about
from hostler.service.snapshot.expecting import (
    Busy,
    Expected,
    Pool,
    Waiter,
    expected_starts,
    usual_seconds,
)
from hostler.service.why import Gatekeeper, Inquiry, since_when
from hostler.store import Transaction
from hostler.store.runs import Ended
from hostler.store.tasks import Task
from hostler.store.transaction import age, not_after


@dataclass(frozen=True, slots=True)
class Queued:
    """A task that waits. `held` is None for the one that starts next."""

    position: int
    task: Task
    held: Held | None
    since: datetime
    seconds: float
    expected: Expected | None = None

    def as_json(self, web_url: str) -> dict[str, Any]:
        """For programs; `until` is when its gate opens by itself, where that is known."""
        held, expected = self.held, self.expected
        return {
            "position": self.position,
            **about(self.task, web_url),
            "attempt": self.task.attempt,
            "seconds": self.seconds,
            "would_start": held is None,
            "gate": str(held.gate) if held else None,
            "why": held.why if held else None,
            "remedy": held.remedy if held else None,
            "since": stamp(self.since),
            "until": stamp(held.until) if held and held.until else None,
            "starts_at": stamp(expected.at) if expected else None,
            "starts_about": expected.about if expected else None,
        }


def queued_tasks(
    tx: Transaction,
    inquiry: Inquiry,
    runs: Iterable[Busy] = (),
    ended: Iterable[Ended] = (),
    pools: Iterable[PoolStatus] = (),
) -> tuple[Queued, ...]:
    """All that wait for a place, in the order in which they are looked at.

    `runs` and `ended`: who is at work, and who was; by them and `pools` starts are estimated.
    """
    keeper, now = Gatekeeper(tx, inquiry), tx.now()
    found = keeper.queue()
    usual = usual_seconds((one.pool, one.work_seconds) for one in ended)
    waiters = [_waiter(task, held, keeper) for task, held in found]
    starts: list[Expected | None] = [None] * len(found)
    # Without a service nothing starts, whatever gates say.
    if inquiry.presence.takes_tasks:
        rooms = _rooms(waiters, pools, inquiry)
        starts = expected_starts(waiters, runs, usual, rooms, now)
    return tuple(
        Queued(
            position,
            task,
            held,
            not_after(since_when(task, held), now),
            age(parse_stamp(task.state_since), now).total_seconds(),
            expected,
        )
        for position, ((task, held), expected) in enumerate(zip(found, starts, strict=True), 1)
    )


def _waiter(task: Task, held: Held | None, keeper: Gatekeeper) -> Waiter:
    place = keeper.yard.places.get(task.id)
    pool = place.pool if place else ""
    if held is None:
        return Waiter(task.project, pool, None)
    return Waiter(task.project, pool, held.gate, held.until, held.over)


def _rooms(
    waiters: Iterable[Waiter], pools: Iterable[PoolStatus], inquiry: Inquiry
) -> Mapping[str, Pool]:
    """What each pool has free; one that nobody has used yet, its whole cap."""
    unused = {one.pool: Pool(inquiry.policy.cap(one.pool)) for one in waiters}
    return unused | {one.pool: _room(one) for one in pools}


def _room(one: PoolStatus) -> Pool:
    interval = one.knobs.min_dispatch_interval_seconds if one.learned else 0.0
    return Pool(one.cap - one.active, max(interval, 0.0))
