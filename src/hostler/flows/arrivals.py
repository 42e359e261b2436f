"""What arrived from GitHub becomes tasks and feedback, and people are told, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from hostler.flows.dependencies import note_arrivals, note_blocking, untangle
from hostler.flows.receipt import leave_receipt
from hostler.flows.status import publish
from hostler.forge.outbox.sender import SCOPE as OUTBOX
from hostler.forge.port import Blocking, Forge, Issue
from hostler.intake import (
    Taken,
    Unfinished,
    Watch,
    ask_blocked_by,
    ask_labellers,
    ask_runs,
    blocked_by_of,
    labellers_of,
    request,
    take,
    unfinished_of,
    waiting_events,
)
from hostler.store import Store
from hostler.store.tasks import SCOPE, Flow, Task, require_task
from hostler.store.transaction import Transaction

# So many events are decided about in one transaction.
AT_ONCE = 100


def take_in(store: Store, forge: Forge, watch: Watch) -> Taken:
    """Decide about everything in the inbox of a repository. The network is asked before."""
    with store.read() as tx:
        strangers, blocked = ask_labellers(tx, watch), ask_blocked_by(tx, watch)
        heads = ask_runs(tx, watch)
    labellers = labellers_of(forge, strangers)
    # Asked before a task begins: afterwards, its agent might be started first.
    blockers = blocked_by_of(forge, blocked)
    return take_what_waits(store, watch, labellers, blockers, unfinished_of(forge, heads))


def take_what_waits(
    store: Store,
    watch: Watch,
    labellers: Mapping[int, dict[str, str]] | None = None,
    blockers: Mapping[int, tuple[Blocking, ...]] | None = None,
    unfinished: Unfinished | None = None,
) -> Taken:
    """The same by what is known already; what GitHub would have to be asked about waits on.

    A long thread that is read for the first time must not keep everybody from the database, so
    there are several transactions, each with its effects.
    """
    with store.read() as tx:
        keys = waiting_events(tx, watch)
    taken = Taken()
    for start in range(0, len(keys), AT_ONCE):
        with store.write(SCOPE, OUTBOX) as tx:
            some = keys[start : start + AT_ONCE]
            taken += _take_some(tx, watch, labellers or {}, blockers or {}, some, unfinished)
    return taken


def _take_some(
    tx: Transaction,
    watch: Watch,
    labellers: Mapping[int, dict[str, str]],
    blockers: Mapping[int, tuple[Blocking, ...]],
    keys: Collection[str],
    unfinished: Unfinished | None,
) -> Taken:
    taken = take(tx, watch, labellers, blockers, keys, unfinished)
    for place, task in enumerate(taken.changed, start=1):
        after = publish(tx, untangle(tx, require_task(tx, task), taken.changed[place:]))
        if watch.receipt:
            leave_receipt(tx, after)
    note_blocking(tx, blockers.values())
    note_arrivals(tx, watch, taken)
    return taken


def start_now(
    store: Store,
    watch: Watch,
    issue: Issue,
    flow: Flow | None = None,
    by: str = "the operator",
    at: datetime | None = None,
) -> Task:
    """One issue now, because a person at the machine says so; `at`: GitHub's time."""
    with store.write(SCOPE, OUTBOX) as tx:
        return publish(tx, request(tx, watch, issue, flow, by, at))
