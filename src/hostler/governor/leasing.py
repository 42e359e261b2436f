"""Leases in an open transaction: take one through the gates, hand it on, give it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from hostler.governor.errors import LeaseLost
from hostler.governor.gates import Ask, Denied, Gate, Granted, Scene, decide, too_wide
from hostler.governor.holders import Here, holder_of
from hostler.governor.learned import slot_of
from hostler.governor.learning import News, hear, keep
from hostler.governor.moments import readable
from hostler.governor.policy import Policy
from hostler.governor.pools import pool_key
from hostler.governor.pruning import carry_out, survey
from hostler.governor.scenes import quick_scene, settled_scene
from hostler.store import Transaction
from hostler.store import governor as rows
from hostler.store.governor import Demand, Holder, Lease, put_overlay, take_one
from hostler.store.runs import Run
from hostler.store.transaction import not_after

# Gates that may open when the dead are counted no more; of the breaker's probe too.
COUNTING = frozenset({Gate.BREAKER, Gate.MACHINE, Gate.CAP, Gate.WIDTH, Gate.SHARE})


def acquire(tx: Transaction, ask: Ask, policy: Policy, here: Here) -> Granted | Denied:
    """A lease for one agent, held by this process; or which gate is closed."""
    ask = _named(ask)
    scene, denied = _answer(tx, ask, policy, here, pruning=True)
    if denied is not None:
        return denied
    now = tx.stamp()
    rows.add_lease(tx, _lease(ask, here.holder, now, here.holder.pid))
    _note_start(tx, ask, scene, here)
    if scene.said:
        take_one(tx, Demand(ask.pool, ask.project, here.holder, now))
    return Granted(ask.lease, ask.pool)


def preview(tx: Transaction, ask: Ask, policy: Policy, here: Here) -> Denied | None:
    """What `acquire` would answer; None: it would be granted. Writes nothing."""
    _, denied = _answer(tx, _named(ask), policy, here, pruning=False)
    return denied


def attach(tx: Transaction, run: Run) -> None:
    """A run's lease passes to its shim, which lives as long as its agent."""
    holder = _shim(run)
    if holder is None:
        raise LeaseLost(run.run, "its supervisor is unknown")
    if not rows.give_lease(tx, run.run, holder, tx.stamp()):
        raise LeaseLost(run.run, "its lease is gone")


def release(tx: Transaction, run: Run) -> None:
    """A run's place is free. No harm if it was."""
    give_back(tx, run.run)


def give_back(tx: Transaction, lease: str, policy: Policy | None = None) -> bool:
    """A place is free; whether it was taken. With a policy, its pool hears that nobody called."""
    learns = policy is not None and policy.adapts
    found = rows.find_lease(tx, lease) if learns else None
    taken = rows.remove_lease(tx, lease)
    if policy is not None and found is not None:
        _hear_of(tx, found, policy, reached=False)
    return taken


def hold(tx: Transaction, run: Run) -> None:
    """A lease past all gates, for a run whose shim was found alive without one."""
    holder = _shim(run)
    if holder is None:
        raise LeaseLost(run.run, "its supervisor is unknown")
    if rows.find_lease(tx, run.run) is None:
        ask = Ask(run.run, run.project, pool_key(run.pool), task_id=run.task_id)
        rows.add_lease(tx, _lease(ask, holder, tx.stamp(), 0))
        rows.give_lease(tx, run.run, holder, tx.stamp())


def lend(tx: Transaction, lease: str, policy: Policy | None = None) -> bool:
    """Count a lease no more, while its agent waits for others; whether it counted.

    Its provider has answered it, or it would not wait: a probe of the breaker has succeeded.
    """
    counted = rows.lend_lease(tx, lease, lent=True)
    if counted and policy is not None and policy.adapts and (found := rows.find_lease(tx, lease)):
        _hear_of(tx, found, policy, reached=True)
    return counted


def count_again(tx: Transaction, lease: str) -> bool:
    """Count a lent lease past all gates, for an agent that works on without asking."""
    return rows.lend_lease(tx, lease, lent=False)


def take_back(tx: Transaction, ask: Ask, policy: Policy, here: Here) -> Granted | Denied:
    """Count a lent lease again, through all gates."""
    found = rows.find_lease(tx, ask.lease)
    if found is None:
        raise LeaseLost(ask.lease, "its lease is gone")
    ask = replace(ask, pool=found.pool, project=found.project, task_id=found.task_id)
    if found.lent:
        scene, denied = _answer(tx, ask, policy, here, pruning=True)
        if denied is not None:
            return denied
        rows.lend_lease(tx, ask.lease, lent=False)
        _note_start(tx, ask, scene, here)
    return Granted(ask.lease, ask.pool)


def width_warning(tx: Transaction, ask: Ask, policy: Policy, here: Here) -> str | None:
    """What to tell the operator of a project whose width is more than its share, if it is."""
    ask = _named(ask)
    return too_wide(ask, quick_scene(tx, ask, policy, here), policy)


def _note_start(tx: Transaction, ask: Ask, scene: Scene, here: Here) -> None:
    """One more agent calls its provider. Undone with the transaction, like the lease."""
    if scene.learned is not None:
        slot = slot_of(ask.project, ask.task_id, ask.lease)
        put_overlay(tx, ask.pool, scene.learned.after_start(slot, here.roll()))


def _hear_of(tx: Transaction, lease: Lease, policy: Policy, *, reached: bool) -> None:
    """Its agent calls its provider no more, for now or for good."""
    slot = slot_of(lease.project, lease.task_id, lease.lease)
    hear(tx, policy, lease.pool, News(slot, over=True, reached=reached))


def _named(ask: Ask) -> Ask:
    return replace(ask, pool=pool_key(ask.pool))


def _answer(
    tx: Transaction, ask: Ask, policy: Policy, here: Here, *, pruning: bool
) -> tuple[Scene, Denied | None]:
    """The first closed gate. Holders are looked at only before a no: the dead only take up room."""
    scene = quick_scene(tx, ask, policy, here)
    living: tuple[Lease, ...] = ()
    denied = decide(ask, scene, policy)
    if denied is not None and denied.gate in COUNTING:
        found = survey(tx, policy, here)
        if pruning:
            carry_out(tx, found, policy)
        scene, living = settled_scene(tx, ask, policy, here, found), found.leases
        denied = decide(ask, scene, policy)
    if denied is None:
        return scene, None
    if pruning and scene.learned is not None:
        # What time has changed is stored by whoever writes next, granted or not.
        keep(tx, ask.pool, scene.learned.stored, scene.learned.overlay)
    since = denied.since or closed_since(denied, living, here, scene.now)
    return scene, replace(denied, since=since)


def closed_since(
    denied: Denied, living: Iterable[Lease], here: Here, now: datetime
) -> datetime | None:
    """Since when a gate is closed, as far as leases tell: it was the newest that closed it.

    Only those count that the gate has counted, so that a look says the same as a real question.
    """
    counted: dict[Gate, Callable[[Lease], bool]] = {
        Gate.MACHINE: lambda lease: lease.holder.boot_id in {here.holder.boot_id, ""},
        Gate.CAP: lambda lease: lease.pool == denied.pool,
        Gate.WIDTH: lambda lease: lease.project == denied.project,
        Gate.SHARE: lambda lease: lease.project == denied.project,
    }
    counts = counted.get(denied.gate)
    if counts is None:
        return None
    newest = max((one.acquired_at for one in living if not one.lent and counts(one)), default="")
    moment = readable(newest)
    return not_after(moment, now) if moment else None


def _lease(ask: Ask, holder: Holder, now: str, engine_pid: int) -> Lease:
    return Lease(
        ask.lease,
        ask.pool,
        ask.project,
        holder,
        acquired_at=now,
        seen_at=now,
        task_id=ask.task_id,
        program=ask.program,
        model=ask.model,
        engine_pid=engine_pid,
    )


def _shim(run: Run) -> Holder | None:
    known = json.loads(run.shim) if run.shim else {}
    return holder_of(known) if isinstance(known, dict) else None
