"""Whose leases and wishes have ended: decided from what is seen, and carried out."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from hostler.governor.holders import Alive, Here
from hostler.governor.learned import slot_of
from hostler.governor.learning import News, hear, look
from hostler.governor.moments import age_of, is_off
from hostler.governor.overlay import Slot
from hostler.governor.parking import mend_closings
from hostler.governor.policy import Policy
from hostler.store import Transaction
from hostler.store.governor import (
    Demand,
    Lease,
    all_demand,
    all_leases,
    all_overlays,
    drop_demand,
    remove_lease_of,
    renew_demand,
    see_lease,
)
from hostler.store.runs import live_run_names


@dataclass(frozen=True, slots=True)
class Survey:
    """All leases and wishes, by what is to be done with them.

    `unseen` are among those that stay: nobody here can say whether their holders live. `noted`
    and `renewed` stay too, and their moments are to be set to now.
    """

    leases: tuple[Lease, ...]
    ended: tuple[Lease, ...]
    unseen: frozenset[str]
    noted: tuple[Lease, ...]
    demand: tuple[Demand, ...]
    ended_demand: tuple[Demand, ...]
    renewed: tuple[Demand, ...]


# Of a database that is not there yet.
NOTHING = Survey((), (), frozenset(), (), (), (), ())


def survey(tx: Transaction, policy: Policy, here: Here) -> Survey:
    """Look at every holder. Writes nothing."""
    runs = live_run_names(tx)
    return judged(all_leases(tx), all_demand(tx), tx.now(), policy, here.alive, runs)


def prune(tx: Transaction, policy: Policy, here: Here) -> Survey:
    """Give back what the dead held, note who lives, and let pools note what runs."""
    found = survey(tx, policy, here)
    carry_out(tx, found, policy)
    mend_closings(tx)
    if policy.adapts:
        # Those without leases too: what a clock that was set back left there must be set right.
        for pool in sorted({lease.pool for lease in found.leases} | {*all_overlays(tx)}):
            look(tx, policy, pool)
    return found


def carry_out(tx: Transaction, found: Survey, policy: Policy) -> None:
    """Do what a survey says."""
    now = tx.stamp()
    for lease in found.ended:
        remove_lease_of(tx, lease.lease, lease.holder)
    if policy.adapts:
        for pool in {lease.pool for lease in found.ended}:
            for slot in silent_ends(found, pool):
                hear(tx, policy, pool, News(slot, over=True, reached=False))
    for lease in found.noted:
        see_lease(tx, lease.lease, now)
    for wish in found.ended_demand:
        drop_demand(tx, wish)
    for wish in found.renewed:
        renew_demand(tx, wish, now)


def silent_ends(found: Survey, pool: str) -> list[Slot]:
    """Whose programs are gone, with nobody left to say how: of a task's run its worker says it."""
    gone = (one for one in found.ended if one.pool == pool and not one.task_id)
    return [slot_of(one.project, one.task_id, one.lease) for one in gone]


def judged(
    leases: Iterable[Lease],
    demand: Iterable[Demand],
    now: datetime,
    policy: Policy,
    alive: Alive,
    live_runs: Set[str] = frozenset(),
) -> Survey:
    """What becomes of leases and wishes, by whether their holders live."""
    seen = [(lease, _lives(lease, alive, live_runs)) for lease in leases]
    stay = [(lease, lives) for lease, lives in seen if not lease_ended(lease, lives, now, policy)]
    wishes = [(wish, wish_ended(wish, alive(wish.holder), now, policy)) for wish in demand]
    return Survey(
        leases=tuple(lease for lease, _ in stay),
        ended=tuple(lease for lease, lives in seen if lease_ended(lease, lives, now, policy)),
        unseen=frozenset(lease.lease for lease, lives in stay if lives is None),
        noted=tuple(lease for lease, lives in stay if _to_be_noted(lease, lives, now, policy)),
        demand=tuple(wish for wish, ended in wishes if not ended),
        ended_demand=tuple(wish for wish, ended in wishes if ended),
        renewed=tuple(w for w, ended in wishes if not ended and is_off(w.updated_at, now)),
    )


def _lives(lease: Lease, alive: Alive, live_runs: Set[str]) -> bool | None:
    """Whether its agent lives. A killed shim may have left some of it, which is to be ended yet."""
    lives = alive(lease.holder)
    return None if lives is False and lease.lease in live_runs else lives


def lease_ended(lease: Lease, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """A lease ends with its holder; the TTL is for those of whom nobody knows."""
    if lives is not None:
        return not lives
    return age_of(lease.seen_at, now) >= _ttl(policy)


def wish_ended(wish: Demand, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """A wish ends with its process, with its last start, or when it is not renewed."""
    spent = wish.wanted is not None and wish.wanted <= 0
    return spent or lives is False or is_stale(wish, now, policy)


def is_stale(wish: Demand, now: datetime, policy: Policy) -> bool:
    """Whether a wish was said too long ago."""
    return age_of(wish.updated_at, now) >= timedelta(seconds=policy.demand_ttl_seconds)


def _to_be_noted(lease: Lease, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """Others, who cannot see the holder, must hear of it in time. A moment that is off is set."""
    if is_off(lease.seen_at, now):
        return True
    return lives is True and age_of(lease.seen_at, now) >= _ttl(policy) / 4


def _ttl(policy: Policy) -> timedelta:
    return timedelta(seconds=policy.unattached_lease_ttl_seconds)
