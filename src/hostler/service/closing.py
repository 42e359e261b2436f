"""Why nothing begins: a restart is under way, or the service does only what it has begun."""

from __future__ import annotations

from hostler.flows.operations import current_operation
from hostler.store import Transaction

RESTARTS = "The service restarts as soon as all work is over; nothing begins until then."
ONCE = "The service was asked for one look, which is over: it only ends what it has begun."


def closed_for_restart(tx: Transaction) -> str:
    """Why nothing begins, while a restart is under way; empty otherwise."""
    return RESTARTS if current_operation(tx) is not None else ""
