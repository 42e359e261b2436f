"""What arrived from GitHub becomes tasks and feedback, and people are told, in one transaction."""

from __future__ import annotations

from hostler.flows.status import publish
from hostler.forge.outbox.sender import SCOPE as OUTBOX
from hostler.forge.port import Forge, Issue
from hostler.intake import Taken, Watch, ask_labellers, labellers_of, request, take
from hostler.store import Store
from hostler.store.tasks import SCOPE, Flow, Task, require_task


def take_in(store: Store, forge: Forge, watch: Watch) -> Taken:
    """Decide about everything in the inbox of a repository. The network is asked before."""
    with store.read() as tx:
        numbers = ask_labellers(tx, watch)
    labellers = labellers_of(forge, numbers)
    with store.write(SCOPE, OUTBOX) as tx:
        taken = take(tx, watch, labellers)
        for task in taken.changed:
            publish(tx, require_task(tx, task))
    return taken


def start_now(
    store: Store, watch: Watch, issue: Issue, flow: Flow | None = None, by: str = "the operator"
) -> Task:
    """One issue now, because a person at the machine says so."""
    with store.write(SCOPE, OUTBOX) as tx:
        return publish(tx, request(tx, watch, issue, flow, by))
