"""What arrived from GitHub becomes tasks and feedback, and people are told, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from hostler.flows.dependencies import note_arrivals, note_blocking, untangle
from hostler.flows.status import publish
from hostler.forge.outbox.sender import SCOPE as OUTBOX
from hostler.forge.port import Blocking, Forge, Issue
from hostler.intake import (
    Taken,
    Watch,
    ask_blocked_by,
    ask_labellers,
    blocked_by_of,
    labellers_of,
    request,
    take,
)
from hostler.store import Store
from hostler.store.tasks import SCOPE, Flow, Task, require_task
from hostler.store.transaction import Transaction


def take_in(store: Store, forge: Forge, watch: Watch) -> Taken:
    """Decide about everything in the inbox of a repository. The network is asked before."""
    with store.read() as tx:
        strangers, blocked = ask_labellers(tx, watch), ask_blocked_by(tx, watch)
    labellers = labellers_of(forge, strangers)
    # Asked before a task begins: afterwards, its agent might be started first.
    blockers = blocked_by_of(forge, blocked)
    with store.write(SCOPE, OUTBOX) as tx:
        return take_what_waits(tx, watch, labellers, blockers)


def take_what_waits(
    tx: Transaction,
    watch: Watch,
    labellers: Mapping[int, dict[str, str]] | None = None,
    blockers: Mapping[int, tuple[Blocking, ...]] | None = None,
) -> Taken:
    """Decide about everything in the inbox. What GitHub would have to be asked about waits on."""
    told = blockers or {}
    taken = take(tx, watch, labellers or {}, told)
    for place, task in enumerate(taken.changed, start=1):
        publish(tx, untangle(tx, require_task(tx, task), taken.changed[place:]))
    note_blocking(tx, told.values())
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
