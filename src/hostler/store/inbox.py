"""Rows of the inbox, and the feedback events that come of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import and_, select, update

from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.store.forge_tables import feedback_events, inbox
from hostler.store.transaction import Transaction, batches
from hostler.store.upserts import insert_if_absent, insert_if_new

# SQLite takes only so many values in one statement.


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One version of something on GitHub. `scope_number` is its issue or pull request.

    `held_at`: since when it waits for its task to be unblocked (`store/held.py`).
    """

    repo_full_name: str
    event_key: str
    kind: str
    scope_number: int
    object_id: int
    author: str
    updated_at: str
    payload: str
    sequence: int = 0
    received_at: str = ""
    consumed_at: str | None = None
    held_at: str | None = None


@dataclass(frozen=True, slots=True)
class FeedbackEvent:
    """What somebody said about a pull request of ours."""

    event_key: str
    pr_number: int
    issue_number: int
    kind: str
    comment_id: int
    updated_at: str
    processed_at: str | None = None


def add_inbox_row(tx: Transaction, row: InboxRow) -> bool:
    """Store an event; whether it was new."""
    values = asdict(row) | {"received_at": tx.stamp()}
    del values["sequence"]
    return insert_if_new(tx, inbox, values, key=("repo_full_name", "event_key"))


def known_events(tx: Transaction, repo: RepoName, keys: Collection[str]) -> set[str]:
    """Which of these events were stored, whatever became of them."""
    found: set[str] = set()
    for batch in batches(sorted(keys)):
        chosen = and_(inbox.c.repo_full_name == str(repo), inbox.c.event_key.in_(batch))
        found |= set(tx.execute(select(inbox.c.event_key).where(chosen)).scalars())
    return found


def pending_inbox_rows(
    tx: Transaction,
    repo: RepoName,
    scope_number: int | None = None,
    without: Collection[str] = (),
) -> list[InboxRow]:
    """Events that had no effect yet, oldest first; of one thread, if named; `without` kinds."""
    chosen = [inbox.c.repo_full_name == str(repo), inbox.c.consumed_at.is_(None)]
    if scope_number is not None:
        chosen.append(inbox.c.scope_number == scope_number)
    if without:
        chosen.append(inbox.c.kind.not_in(list(without)))
    rows = tx.execute(select(inbox).where(*chosen).order_by(inbox.c.sequence)).mappings()
    return [InboxRow(**row) for row in rows]


def consume_inbox_rows(tx: Transaction, repo: RepoName, keys: Collection[str]) -> None:
    """These events have had their effect, in this transaction. Twice is refused."""
    for batch in batches(sorted(set(keys))):
        chosen = and_(
            inbox.c.repo_full_name == str(repo),
            inbox.c.event_key.in_(batch),
            inbox.c.consumed_at.is_(None),
        )
        done = tx.execute(update(inbox).where(chosen).values(consumed_at=tx.stamp()))
        if done.rowcount != len(batch):
            raise StoreConflict(f"Events of {repo} were consumed already, or are not there.")


def record_feedback_event(tx: Transaction, repo: RepoName, event: FeedbackEvent) -> None:
    """Note what somebody said. One that is known already stays as it is."""
    values = asdict(event) | {"repo_full_name": str(repo), "created_at": tx.stamp()}
    insert_if_absent(tx, feedback_events, values)


def pending_feedback_events(tx: Transaction, repo: RepoName, pr_number: int) -> list[FeedbackEvent]:
    """What was said about a pull request and is not answered yet, oldest first."""
    chosen = and_(
        feedback_events.c.repo_full_name == str(repo),
        feedback_events.c.pr_number == pr_number,
        feedback_events.c.processed_at.is_(None),
    )
    order = (feedback_events.c.updated_at, feedback_events.c.comment_id)
    rows = tx.execute(select(feedback_events).where(chosen).order_by(*order)).mappings()
    return [_feedback(dict(row)) for row in rows]


def mark_feedback_events_processed(tx: Transaction, repo: RepoName, keys: Collection[str]) -> None:
    """These were answered, in this transaction."""
    for batch in batches(sorted(set(keys))):
        chosen = and_(
            feedback_events.c.repo_full_name == str(repo),
            feedback_events.c.event_key.in_(batch),
            feedback_events.c.processed_at.is_(None),
        )
        tx.execute(update(feedback_events).where(chosen).values(processed_at=tx.stamp()))


def _feedback(row: dict[str, Any]) -> FeedbackEvent:
    for name in ("repo_full_name", "created_at"):
        del row[name]
    return FeedbackEvent(**row)
