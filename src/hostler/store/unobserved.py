"""Writes that GitHub has answered, and that no feed has shown yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, select

from hostler.model import RepoName, TokenStatus
from hostler.store.forge_tables import outbox
from hostler.store.outbox import OutboxRow, WriteState, find_write
from hostler.store.tables import action_tokens
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Unobserved:
    """One write, and when it was answered."""

    repo: RepoName
    token: str
    posted_at: str


def unobserved_writes(
    tx: Transaction, kinds: Collection[str], since: str, most: int
) -> list[Unobserved]:
    """Those of these kinds that were answered since a moment, oldest first."""
    tokens = action_tokens.c
    same = and_(outbox.c.repo_full_name == tokens.repo_full_name, outbox.c.token == tokens.token)
    chosen = and_(
        tokens.status == TokenStatus.POSTED.value,
        tokens.updated_at >= since,
        outbox.c.kind.in_(list(kinds)),
        outbox.c.state == WriteState.SENT.value,
    )
    wanted = select(tokens.repo_full_name, tokens.token, tokens.updated_at)
    found = wanted.select_from(action_tokens.join(outbox, same)).where(chosen)
    rows = tx.execute(found.order_by(tokens.updated_at, tokens.token).limit(most)).mappings()
    return [
        Unobserved(RepoName.parse(row["repo_full_name"]), row["token"], row["updated_at"])
        for row in rows
    ]


def unobserved_write(tx: Transaction, found: Unobserved) -> OutboxRow | None:
    """The whole write."""
    return find_write(tx, found.repo, found.token)
