"""Storing what became of a write, with its token and whatever follows from it."""

from __future__ import annotations

from collections.abc import Callable

from hostler.forge.port import Made
from hostler.store.outbox import OutboxRow, WriteState, change_write
from hostler.store.repositories import Repo
from hostler.store.transaction import Transaction

# Called once for each write, in the transaction that stores its end: queue here what depends
# on its result. The row is `sent` or `failed`.
Settled = Callable[[Transaction, OutboxRow], None]


def ignore(_tx: Transaction, _row: OutboxRow) -> None:
    """Nothing follows."""


def settle(
    tx: Transaction,
    before: OutboxRow,
    after: OutboxRow,
    settled: Settled,
    *,
    seen: object = None,
) -> None:
    """Store a write's new state. `seen` is what was met on GitHub, rather than answered."""
    change_write(tx, before, after)
    if not after.settled:
        return
    repo = Repo(after.repo)
    if after.state is WriteState.FAILED:
        repo.record_action_token_failed(tx, after.token)
    elif isinstance(seen, Made) and seen.id and seen.updated_at:
        repo.record_action_token_observed(
            tx, after.token, comment_id=seen.id, updated_at=seen.updated_at
        )
    else:
        repo.record_action_token_posted(tx, after.token)
    settled(tx, after)
