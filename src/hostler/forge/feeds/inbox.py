"""Storing what was read: events, our own writes among them, and the cursor, all at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from hostler.forge.feeds.keys import event_key
from hostler.forge.feeds.ours import MADE_BY, judge
from hostler.forge.markers import tokens_in
from hostler.forge.outbox.rules import sent
from hostler.forge.outbox.settling import Settled, ignore, settle
from hostler.forge.payloads import made
from hostler.forge.port import Item, ItemKind
from hostler.model import RepoName, TokenStatus
from hostler.store.inbox import InboxRow, add_inbox_row, consume_inbox_rows, pending_inbox_rows
from hostler.store.outbox import OutboxRow, WriteState, find_write, recorded_ids
from hostler.store.repositories import Repo
from hostler.store.transaction import Transaction, normal_stamp

# Kinds of events that are looked at.
HEARD = tuple(kind.value for kind in ItemKind)


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a batch."""

    new: int = 0
    replayed: int = 0
    ours: int = 0
    observed: int = 0
    # What was new, what was not, and the tokens of our writes that were seen for the first time.
    news: tuple[Item, ...] = ()
    known: tuple[Item, ...] = ()
    tokens: tuple[str, ...] = ()

    def __add__(self, other: Ingested) -> Ingested:
        return Ingested(
            self.new + other.new,
            self.replayed + other.replayed,
            self.ours + other.ours,
            self.observed + other.observed,
            self.news + other.news,
            self.known + other.known,
            self.tokens + other.tokens,
        )


@dataclass(frozen=True, slots=True)
class Sifted:
    """A batch, told apart: what may be news, by its key, and which of our writes it shows."""

    rows: dict[str, InboxRow] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    ours: int = 0
    # Those of which that was not known yet.
    seen: tuple[tuple[OutboxRow, Item], ...] = ()


def ingest(
    tx: Transaction, repo: RepoName, me: str, items: Sequence[Item], settled: Settled
) -> Ingested:
    """Store what is new, and resolve writes of ours that are seen."""
    sifted = sift(tx, repo, me, items)
    for write, item in sifted.seen:
        observe(tx, write, item, settled)
    new = [key for key, row in sifted.rows.items() if add_inbox_row(tx, row)]
    return summed(sifted, new)


def sift(tx: Transaction, repo: RepoName, me: str, items: Sequence[Item]) -> Sifted:
    """Tell what people did from what we did."""
    recorded = _recorded(tx, repo, me, items)
    news: dict[str, Item] = {}
    seen: dict[str, tuple[OutboxRow, Item]] = {}
    ours = 0
    for item in items:
        verdict = judge(item, me, _writes(tx, repo, me, item), recorded)
        if verdict.write is not None and not _was_observed(tx, verdict.write):
            seen.setdefault(verdict.write.token, (verdict.write, item))
        if verdict.news:
            news.setdefault(event_key(item), item)
        else:
            recorded.add((item.kind, item.id))
            ours += 1
    rows = {key: _row(repo, key, item) for key, item in news.items()}
    return Sifted(rows, news, ours, tuple(seen.values()))


def summed(sifted: Sifted, new: Sequence[str]) -> Ingested:
    """What became of a batch, of whose keys these were new."""
    fresh = set(new)
    return Ingested(
        new=len(fresh),
        replayed=len(sifted.items) - len(fresh),
        ours=sifted.ours,
        observed=len(sifted.seen),
        news=tuple(item for key, item in sifted.items.items() if key in fresh),
        known=tuple(item for key, item in sifted.items.items() if key not in fresh),
        tokens=tuple(write.token for write, _ in sifted.seen),
    )


def pending(tx: Transaction, repo: RepoName, number: int | None = None) -> list[InboxRow]:
    """Events that had no effect yet, oldest first; of one issue or pull request, if named."""
    return pending_inbox_rows(tx, repo, number)


def consume(tx: Transaction, repo: RepoName, keys: Sequence[str]) -> None:
    """These events have had their effect, in this transaction. Twice is refused."""
    consume_inbox_rows(tx, repo, keys)


def _row(repo: RepoName, key: str, item: Item) -> InboxRow:
    return InboxRow(
        repo_full_name=str(repo),
        event_key=key,
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


def observe(tx: Transaction, row: OutboxRow, item: Item, settled: Settled) -> None:
    """A write of ours is there to be seen."""
    seen = made(item.payload)
    if row.state is WriteState.SENT:
        Repo(row.repo).record_action_token_observed(
            tx, row.token, comment_id=item.id, updated_at=item.updated_at
        )
    else:
        # What follows from one that was given up was settled then.
        follows = ignore if row.state is WriteState.FAILED else settled
        settle(tx, row, sent(row, seen), follows, seen=seen)


def _was_observed(tx: Transaction, row: OutboxRow) -> bool:
    token = Repo(row.repo).get_action_token(tx, row.token)
    return token is not None and token.status is TokenStatus.OBSERVED
