"""Store events in the inbox, and recognise our own writes among them.

An event is new if its key was never stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from hostler.forge.actions import find_tokens
from hostler.forge.events import encode_content, event_key, item_result
from hostler.forge.outbox.queue import SettledWrite, ignore_settled, settle_write
from hostler.forge.outbox.rules import mark_sent
from hostler.forge.port import CommentContent, Item, ItemKind
from hostler.model import RepoName, TokenStatus
from hostler.store.inbox import InboxRow, add_inbox_row
from hostler.store.outbox import OutboxRow, WriteState, find_write, recorded_ids
from hostler.store.repositories import Repo
from hostler.store.transaction import Transaction, normal_stamp

# Which actions create which kind of event.
ACTIONS_BY_KIND: dict[ItemKind, tuple[str, ...]] = {
    ItemKind.ISSUE_COMMENT: ("comment", "edit_comment"),
    ItemKind.REVIEW_COMMENT: ("reply",),
    ItemKind.ISSUE: ("open_issue", "open_pull"),
    ItemKind.PULL: ("open_pull", "update_pull"),
    ItemKind.REVIEW: (),
    ItemKind.WORKFLOW_RUN: (),
}
# New even if we created them: users close, label and merge them.
_ALWAYS_NEW_KINDS = (ItemKind.ISSUE, ItemKind.PULL)


@dataclass(frozen=True, slots=True)
class OwnWriteVerdict:
    """Whether an event is new, and which of our writes it is, if any."""

    is_new: bool
    write: OutboxRow | None = None


def judge_own_write(
    item: Item, own_login: str, writes: Mapping[str, OutboxRow], recorded: Set[tuple[ItemKind, int]]
) -> OwnWriteVerdict:
    """Judge an event. `writes` has the writes of the tokens in it; `recorded` our ids.

    A marker alone proves nothing: anyone can paste one, and so can the user whose account
    we use. It counts together with our account, an action of the right kind on this thread,
    and a result that is this event, or not recorded yet.
    """
    if item.author.lower() != own_login.lower():
        return OwnWriteVerdict(is_new=True)
    found = (writes.get(token) for token in find_tokens(item.body))
    write = next((row for row in found if row is not None and _is_result_of(item, row)), None)
    own_count = write is not None or (item.kind, item.id) in recorded or _is_empty_review(item)
    return OwnWriteVerdict(is_new=not own_count or item.kind in _ALWAYS_NEW_KINDS, write=write)


def _is_result_of(item: Item, row: OutboxRow) -> bool:
    if row.kind not in ACTIONS_BY_KIND[item.kind]:
        return False
    if row.kind in ("open_issue", "open_pull"):
        # These have their own number, and a pull request has two ids.
        return row.result_number in (None, item.number)
    return row.scope_number == item.number and row.result_id in (None, item.id)


def _is_empty_review(item: Item) -> bool:
    """Return whether this is the empty review that GitHub creates for each reply."""
    is_comment = isinstance(item.content, CommentContent) and item.content.verdict == "COMMENTED"
    return item.kind is ItemKind.REVIEW and is_comment and not item.body.strip()


@dataclass(frozen=True, slots=True)
class IngestCounts:
    """What became of a batch of items."""

    new: int = 0
    replayed: int = 0
    own_count: int = 0
    observed: int = 0
    # New items, known items, and the tokens of our writes that were observed for the first time.
    new_items: tuple[Item, ...] = ()
    known_items: tuple[Item, ...] = ()
    tokens: tuple[str, ...] = ()

    def __add__(self, other: IngestCounts) -> IngestCounts:
        return IngestCounts(
            self.new + other.new,
            self.replayed + other.replayed,
            self.own_count + other.own_count,
            self.observed + other.observed,
            self.new_items + other.new_items,
            self.known_items + other.known_items,
            self.tokens + other.tokens,
        )


@dataclass(frozen=True, slots=True)
class SiftedItems:
    """A batch, sorted: possible new events by key, and our writes among them."""

    rows: dict[str, InboxRow] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    own_count: int = 0
    # Writes that were not observed before.
    observed_writes: tuple[tuple[OutboxRow, Item], ...] = ()


def ingest_items(
    tx: Transaction, repo: RepoName, own_login: str, items: Sequence[Item], settled: SettledWrite
) -> IngestCounts:
    """Store new events, and settle our writes that are observed."""
    sifted = sift_items(tx, repo, own_login, items)
    for write, item in sifted.observed_writes:
        mark_write_observed(tx, write, item, settled)
    new = [key for key, row in sifted.rows.items() if add_inbox_row(tx, row)]
    return sum_counts(sifted, new)


def sift_items(
    tx: Transaction, repo: RepoName, own_login: str, items: Sequence[Item]
) -> SiftedItems:
    """Separate users' actions from our own."""
    recorded = _is_recorded(tx, repo, own_login, items)
    new_items: dict[str, Item] = {}
    observed_writes: dict[str, tuple[OutboxRow, Item]] = {}
    own_count = 0
    for item in items:
        verdict = judge_own_write(
            item, own_login, _find_writes(tx, repo, own_login, item), recorded
        )
        if verdict.write is not None and not _was_observed(tx, verdict.write):
            observed_writes.setdefault(verdict.write.token, (verdict.write, item))
        if verdict.is_new:
            new_items.setdefault(event_key(item), item)
        else:
            recorded.add((item.kind, item.id))
            own_count += 1
    rows = {key: _event_row(repo, key, item) for key, item in new_items.items()}
    return SiftedItems(rows, new_items, own_count, tuple(observed_writes.values()))


def sum_counts(sifted: SiftedItems, new: Sequence[str]) -> IngestCounts:
    """Return the counts of a batch, given which keys were new."""
    new_keys = set(new)
    return IngestCounts(
        new=len(new_keys),
        replayed=len(sifted.items) - len(new_keys),
        own_count=sifted.own_count,
        observed=len(sifted.observed_writes),
        new_items=tuple(item for key, item in sifted.items.items() if key in new_keys),
        known_items=tuple(item for key, item in sifted.items.items() if key not in new_keys),
        tokens=tuple(write.token for write, _ in sifted.observed_writes),
    )


def _event_row(repo: RepoName, key: str, item: Item) -> InboxRow:
    return InboxRow(
        repo_full_name=str(repo),
        event_key=key,
        kind=item.kind.value,
        scope_number=item.number,
        object_id=item.id,
        author=item.author,
        updated_at=normal_stamp(item.updated_at),
        payload=encode_content(item.content),
    )


def _find_writes(
    tx: Transaction, repo: RepoName, own_login: str, item: Item
) -> dict[str, OutboxRow]:
    if item.author.lower() != own_login.lower():
        return {}
    found = (find_write(tx, repo, token) for token in find_tokens(item.body))
    return {row.token: row for row in found if row is not None}


def _is_recorded(
    tx: Transaction, repo: RepoName, own_login: str, items: Sequence[Item]
) -> set[tuple[ItemKind, int]]:
    """Return which items are results of our writes, by id."""
    found: set[tuple[ItemKind, int]] = set()
    for kind, action_kinds in ACTIONS_BY_KIND.items():
        ids = {i.id for i in items if i.kind is kind and i.author.lower() == own_login.lower()}
        if ids and action_kinds:
            found |= {(kind, known) for known in recorded_ids(tx, repo, action_kinds, ids)}
    return found


def mark_write_observed(tx: Transaction, row: OutboxRow, item: Item, settled: SettledWrite) -> None:
    """Record that one of our writes was observed."""
    observed_writes = item_result(item)
    if row.state is WriteState.SENT:
        Repo(row.repo).record_action_token_observed(
            tx, row.token, comment_id=item.id, updated_at=item.updated_at
        )
    else:
        # The consequences of a failed write were settled then.
        follows = ignore_settled if row.state is WriteState.FAILED else settled
        settle_write(
            tx, row, mark_sent(row, observed_writes), follows, found_result=observed_writes
        )


def _was_observed(tx: Transaction, row: OutboxRow) -> bool:
    token = Repo(row.repo).get_action_token(tx, row.token)
    return token is not None and token.status is TokenStatus.OBSERVED
