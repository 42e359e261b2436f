"""Storing what was read: events, our own writes among them, and the cursor, all at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hostler.forge.feeds.keys import event_key
from hostler.forge.feeds.ours import MADE_BY, judge
from hostler.forge.markers import tokens_in
from hostler.forge.outbox.rules import sent
from hostler.forge.outbox.settling import Settled, ignore, settle
from hostler.forge.payloads import made
from hostler.forge.port import Item, ItemKind
from hostler.model import RepoName, TokenStatus
from hostler.store.inbox import (
    InboxRow,
    add_inbox_row,
    consume_inbox_rows,
    pending_inbox_rows,
)
from hostler.store.instants import normal_stamp
from hostler.store.outbox import OutboxRow, WriteState, find_write, recorded_ids
from hostler.store.repo import Repo
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a batch."""

    new: int = 0
    replayed: int = 0
    ours: int = 0
    observed: int = 0

    def __add__(self, other: Ingested) -> Ingested:
        return Ingested(
            self.new + other.new,
            self.replayed + other.replayed,
            self.ours + other.ours,
            self.observed + other.observed,
        )


def ingest(
    tx: Transaction, repo: RepoName, me: str, items: Sequence[Item], settled: Settled
) -> Ingested:
    """Store what is new, and resolve writes of ours that are seen."""
    recorded = _recorded(tx, repo, me, items)
    total = Ingested()
    for item in items:
        verdict = judge(item, me, _writes(tx, repo, me, item), recorded)
        observed = verdict.write is not None and _observe(tx, verdict.write, item, settled)
        if not verdict.news:
            recorded.add((item.kind, item.id))
            total += Ingested(ours=1, observed=observed)
        elif add_inbox_row(tx, _row(repo, item)):
            total += Ingested(new=1, observed=observed)
        else:
            total += Ingested(replayed=1, observed=observed)
    return total


def pending(tx: Transaction, repo: RepoName, number: int | None = None) -> list[InboxRow]:
    """Events that had no effect yet, oldest first; of one issue or pull request, if named."""
    return pending_inbox_rows(tx, repo, number)


def consume(tx: Transaction, repo: RepoName, keys: Sequence[str]) -> None:
    """These events have had their effect, in this transaction. Twice is refused."""
    consume_inbox_rows(tx, repo, keys)


def _row(repo: RepoName, item: Item) -> InboxRow:
    return InboxRow(
        repo_full_name=str(repo),
        event_key=event_key(item),
        kind=item.kind.value,
        scope_number=item.number,
        object_id=item.id,
        author=item.author,
        updated_at=normal_stamp(item.updated_at),
        payload=json.dumps(item.payload),
    )


def _writes(tx: Transaction, repo: RepoName, me: str, item: Item) -> dict[str, OutboxRow]:
    if item.author.lower() != me.lower():
        return {}
    found = (find_write(tx, repo, token) for token in tokens_in(item.body))
    return {row.token: row for row in found if row is not None}


def _recorded(
    tx: Transaction, repo: RepoName, me: str, items: Sequence[Item]
) -> set[tuple[ItemKind, int]]:
    """Which of these are results of our writes, by their ids."""
    found: set[tuple[ItemKind, int]] = set()
    for kind, deeds in MADE_BY.items():
        ids = {i.id for i in items if i.kind is kind and i.author.lower() == me.lower()}
        if ids and deeds:
            found |= {(kind, known) for known in recorded_ids(tx, repo, deeds, ids)}
    return found


def _observe(tx: Transaction, row: OutboxRow, item: Item, settled: Settled) -> bool:
    """A write of ours is there to be seen; whether that was not known yet."""
    token = Repo(row.repo).get_action_token(tx, row.token)
    if token is not None and token.status is TokenStatus.OBSERVED:
        return False
    seen = made(item.payload)
    if row.state is WriteState.SENT:
        Repo(row.repo).record_action_token_observed(
            tx, row.token, comment_id=item.id, updated_at=item.updated_at
        )
    else:
        # What follows from one that was given up was settled then.
        follows = ignore if row.state is WriteState.FAILED else settled
        settle(tx, row, sent(row, seen), follows, seen=seen)
    return True
