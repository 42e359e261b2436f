"""Store events in the inbox, and recognise our own writes among them.

An event is new if its key was never stored. The key holds the object, its version and a digest of
what a person can change: GitHub's timestamps are whole seconds, so that a second edit in the same
second has the same version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from hostler.forge.actions import find_tokens
from hostler.forge.github.payloads import (
    parse_author,
    parse_blocker_count,
    parse_label_name,
    parse_made,
)
from hostler.forge.outbox.queue import SettledWrite, ignore_settled, settle_write
from hostler.forge.outbox.rules import mark_sent
from hostler.forge.port import Item, ItemKind
from hostler.model import RepoName, TokenStatus
from hostler.store.inbox import InboxRow, add_inbox_row, consume_inbox_rows, pending_inbox_rows
from hostler.store.outbox import OutboxRow, WriteState, find_write, recorded_ids
from hostler.store.repositories import Repo
from hostler.store.transaction import Transaction, normal_stamp


def event_key(item: Item) -> str:
    """`issue_comment:123:2026-01-31T12:00:00Z:1f3e95338aef`."""
    content = json.dumps(_content_digest(item), sort_keys=True, ensure_ascii=True)
    digest = sha256(content.encode()).hexdigest()[:12]
    return f"{item.kind}:{item.id}:{item.updated_at}:{digest}"


def _content_digest(item: Item) -> dict[str, Any]:
    payload = item.payload
    found: dict[str, Any] = {"author": parse_author(payload), "body": item.body}
    if item.kind is ItemKind.ISSUE:
        found |= {name: payload.get(name) for name in ("title", "state", "state_reason", "locked")}
        found["labels"] = sorted(parse_label_name(label) for label in payload.get("labels") or ())
        found["waits_for"] = parse_blocker_count(payload)
    elif item.kind is ItemKind.REVIEW:
        found["state"] = payload.get("state")
    elif item.kind is ItemKind.PULL:
        names = ("title", "state", "draft", "merged_at")
        found |= {name: payload.get(name) for name in names}
        found["head"] = (payload.get("head") or {}).get("sha")
        found["base"] = (payload.get("base") or {}).get("ref")
    elif item.kind is ItemKind.WORKFLOW_RUN:
        names = ("head_sha", "status", "conclusion", "run_attempt")
        found |= {name: payload.get(name) for name in names}
    return found


# Which deeds make which kind of event.
ACTIONS_BY_KIND: dict[ItemKind, tuple[str, ...]] = {
    ItemKind.ISSUE_COMMENT: ("comment", "edit_comment"),
    ItemKind.REVIEW_COMMENT: ("reply",),
    ItemKind.ISSUE: ("open_issue", "open_pull"),
    ItemKind.PULL: ("open_pull", "update_pull"),
    ItemKind.REVIEW: (),
    ItemKind.WORKFLOW_RUN: (),
}
# News even when we made them: others close, label and merge them.
_ALWAYS_NEW_KINDS = (ItemKind.ISSUE, ItemKind.PULL)


@dataclass(frozen=True, slots=True)
class OwnWriteVerdict:
    """Whether an event is news, and which of our writes it is, if any."""

    news: bool
    write: OutboxRow | None = None


def judge_own_write(
    item: Item, me: str, writes: Mapping[str, OutboxRow], recorded: Set[tuple[ItemKind, int]]
) -> OwnWriteVerdict:
    """What an event means. `writes` holds the writes of the tokens in it; `recorded` our ids.

    A marker alone proves nothing: anybody can paste one, and so can a person whose account
    we use. It counts with our own account, a deed of the right kind on this thread, and a
    result that is this very event, or not recorded yet.
    """
    if item.author.lower() != me.lower():
        return OwnWriteVerdict(news=True)
    found = (writes.get(token) for token in find_tokens(item.body))
    write = next((row for row in found if row is not None and _is_result_of(item, row)), None)
    ours = write is not None or (item.kind, item.id) in recorded or _is_empty_review(item)
    return OwnWriteVerdict(news=not ours or item.kind in _ALWAYS_NEW_KINDS, write=write)


def _is_result_of(item: Item, row: OutboxRow) -> bool:
    if row.kind not in ACTIONS_BY_KIND[item.kind]:
        return False
    if row.kind in ("open_issue", "open_pull"):
        # These have a number of their own, and a pull request has two ids.
        return row.result_number in (None, item.number)
    return row.scope_number == item.number and row.result_id in (None, item.id)


def _is_empty_review(item: Item) -> bool:
    """A review without words, which GitHub makes around each reply."""
    commented = item.payload.get("state") == "COMMENTED"
    return item.kind is ItemKind.REVIEW and commented and not item.body.strip()


# Kinds of events that are looked at.
EVENT_KINDS = tuple(kind.value for kind in ItemKind)


@dataclass(frozen=True, slots=True)
class IngestCounts:
    """What became of a batch."""

    new: int = 0
    replayed: int = 0
    ours: int = 0
    observed: int = 0
    # What was new, what was not, and the tokens of our writes that were seen for the first time.
    news: tuple[Item, ...] = ()
    known: tuple[Item, ...] = ()
    tokens: tuple[str, ...] = ()

    def __add__(self, other: IngestCounts) -> IngestCounts:
        return IngestCounts(
            self.new + other.new,
            self.replayed + other.replayed,
            self.ours + other.ours,
            self.observed + other.observed,
            self.news + other.news,
            self.known + other.known,
            self.tokens + other.tokens,
        )


@dataclass(frozen=True, slots=True)
class SiftedItems:
    """A batch, told apart: what may be news, by its key, and which of our writes it shows."""

    rows: dict[str, InboxRow] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    ours: int = 0
    # Those of which that was not known yet.
    seen: tuple[tuple[OutboxRow, Item], ...] = ()


def ingest_items(
    tx: Transaction, repo: RepoName, me: str, items: Sequence[Item], settled: SettledWrite
) -> IngestCounts:
    """Store what is new, and resolve writes of ours that are seen."""
    sifted = sift_items(tx, repo, me, items)
    for write, item in sifted.seen:
        mark_write_observed(tx, write, item, settled)
    new = [key for key, row in sifted.rows.items() if add_inbox_row(tx, row)]
    return sum_counts(sifted, new)


def sift_items(tx: Transaction, repo: RepoName, me: str, items: Sequence[Item]) -> SiftedItems:
    """Tell what people did from what we did."""
    recorded = _is_recorded(tx, repo, me, items)
    news: dict[str, Item] = {}
    seen: dict[str, tuple[OutboxRow, Item]] = {}
    ours = 0
    for item in items:
        verdict = judge_own_write(item, me, _find_writes(tx, repo, me, item), recorded)
        if verdict.write is not None and not _was_observed(tx, verdict.write):
            seen.setdefault(verdict.write.token, (verdict.write, item))
        if verdict.news:
            news.setdefault(event_key(item), item)
        else:
            recorded.add((item.kind, item.id))
            ours += 1
    rows = {key: _event_row(repo, key, item) for key, item in news.items()}
    return SiftedItems(rows, news, ours, tuple(seen.values()))


def sum_counts(sifted: SiftedItems, new: Sequence[str]) -> IngestCounts:
    """What became of a batch, of whose keys these were new."""
    fresh = set(new)
    return IngestCounts(
        new=len(fresh),
        replayed=len(sifted.items) - len(fresh),
        ours=sifted.ours,
        observed=len(sifted.seen),
        news=tuple(item for key, item in sifted.items.items() if key in fresh),
        known=tuple(item for key, item in sifted.items.items() if key not in fresh),
        tokens=tuple(write.token for write, _ in sifted.seen),
    )


def list_pending_events(
    tx: Transaction, repo: RepoName, number: int | None = None
) -> list[InboxRow]:
    """Events that had no effect yet, oldest first; of one issue or pull request, if named."""
    return pending_inbox_rows(tx, repo, number)


def mark_events_processed(tx: Transaction, repo: RepoName, keys: Sequence[str]) -> None:
    """These events have had their effect, in this transaction. Twice is refused."""
    consume_inbox_rows(tx, repo, keys)


def _event_row(repo: RepoName, key: str, item: Item) -> InboxRow:
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


def _find_writes(tx: Transaction, repo: RepoName, me: str, item: Item) -> dict[str, OutboxRow]:
    if item.author.lower() != me.lower():
        return {}
    found = (find_write(tx, repo, token) for token in find_tokens(item.body))
    return {row.token: row for row in found if row is not None}


def _is_recorded(
    tx: Transaction, repo: RepoName, me: str, items: Sequence[Item]
) -> set[tuple[ItemKind, int]]:
    """Which of these are results of our writes, by their ids."""
    found: set[tuple[ItemKind, int]] = set()
    for kind, deeds in ACTIONS_BY_KIND.items():
        ids = {i.id for i in items if i.kind is kind and i.author.lower() == me.lower()}
        if ids and deeds:
            found |= {(kind, known) for known in recorded_ids(tx, repo, deeds, ids)}
    return found


def mark_write_observed(tx: Transaction, row: OutboxRow, item: Item, settled: SettledWrite) -> None:
    """A write of ours is there to be seen."""
    seen = parse_made(item.payload)
    if row.state is WriteState.SENT:
        Repo(row.repo).record_action_token_observed(
            tx, row.token, comment_id=item.id, updated_at=item.updated_at
        )
    else:
        # What follows from one that was given up was settled then.
        follows = ignore_settled if row.state is WriteState.FAILED else settled
        settle_write(tx, row, mark_sent(row, seen), follows, seen=seen)


def _was_observed(tx: Transaction, row: OutboxRow) -> bool:
    token = Repo(row.repo).get_action_token(tx, row.token)
    return token is not None and token.status is TokenStatus.OBSERVED
