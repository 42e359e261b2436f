"""What people said, as rows: versions of one thing, and events with their whole text."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, update

from hostler.model import RepoName
from hostler.store.forge_tables import feedback_events, inbox
from hostler.store.inbox import InboxRow
from hostler.store.transaction import Transaction, batches


def is_newest(tx: Transaction, row: InboxRow) -> bool:
    """Whether no later version of the same thing has arrived."""
    same = and_(
        inbox.c.repo_full_name == row.repo_full_name,
        inbox.c.kind == row.kind,
        inbox.c.object_id == row.object_id,
    )
    later = or_(
        inbox.c.updated_at > row.updated_at,
        and_(inbox.c.updated_at == row.updated_at, inbox.c.sequence > row.sequence),
    )
    return tx.execute(select(inbox.c.sequence).where(same, later).limit(1)).first() is None


def is_first(tx: Transaction, row: InboxRow) -> bool:
    """Whether no other version of the same thing was heard before this transaction.

    Versions that arrive together are heard together: the newest speaks for all.
    """
    others = and_(
        inbox.c.repo_full_name == row.repo_full_name,
        inbox.c.kind == row.kind,
        inbox.c.object_id == row.object_id,
        inbox.c.sequence != row.sequence,
        inbox.c.consumed_at.is_not(None),
        inbox.c.consumed_at != tx.stamp(),
    )
    return tx.execute(select(inbox.c.sequence).where(others).limit(1)).first() is None


def was_told(tx: Transaction, repo: RepoName, issue: int, row: InboxRow) -> bool:
    """Whether any version of these words was for the agent of an issue."""
    chosen = and_(
        feedback_events.c.repo_full_name == str(repo),
        feedback_events.c.issue_number == issue,
        feedback_events.c.kind == row.kind,
        feedback_events.c.comment_id == row.object_id,
    )
    return (
        tx.execute(select(feedback_events.c.event_key).where(chosen).limit(1)).first() is not None
    )


def told_keys(tx: Transaction, repo: RepoName, keys: Collection[str]) -> set[str]:
    """Which of these events were for an agent, answered or not."""
    found: set[str] = set()
    for batch in batches(sorted(set(keys))):
        chosen = and_(
            feedback_events.c.repo_full_name == str(repo), feedback_events.c.event_key.in_(batch)
        )
        found |= set(tx.execute(select(feedback_events.c.event_key).where(chosen)).scalars())
    return found


def rows_of_thread(
    tx: Transaction, repo: RepoName, number: int, kind: str, *, naming: str = ""
) -> list[InboxRow]:
    """Everything of one kind that one thread has shown, oldest version first.

    `naming`: only what holds this text, so that a long history need not be read.
    """
    return _rows(
        tx,
        inbox.c.repo_full_name == str(repo),
        inbox.c.scope_number == number,
        inbox.c.kind == kind,
        *([inbox.c.payload.contains(naming, autoescape=True)] if naming else []),
    )


def rows_by_key(tx: Transaction, repo: RepoName, keys: Collection[str]) -> list[InboxRow]:
    """Events with their whole text, used or not."""
    found: list[InboxRow] = []
    for batch in batches(sorted(set(keys))):
        found += _rows(tx, inbox.c.repo_full_name == str(repo), inbox.c.event_key.in_(batch))
    return sorted(found, key=lambda row: (row.updated_at, row.object_id))


def waiting_keys(tx: Transaction, repo: RepoName, issue: int, pull: int | None) -> list[str]:
    """Keys of what was said to a task and is not answered: on its pull request, or its issue."""
    where = feedback_events.c.pr_number == 0
    if pull is not None:
        where = or_(where, feedback_events.c.pr_number == pull)
    chosen = and_(
        feedback_events.c.repo_full_name == str(repo),
        feedback_events.c.issue_number == issue,
        feedback_events.c.processed_at.is_(None),
        where,
    )
    order = (feedback_events.c.updated_at, feedback_events.c.comment_id)
    return list(
        tx.execute(select(feedback_events.c.event_key).where(chosen).order_by(*order)).scalars()
    )


def supersede(tx: Transaction, repo: RepoName, kind: str, comment_id: int, by_key: str) -> None:
    """Earlier versions of a remark need no answer of their own any more."""
    chosen = and_(
        feedback_events.c.repo_full_name == str(repo),
        feedback_events.c.kind == kind,
        feedback_events.c.comment_id == comment_id,
        feedback_events.c.event_key != by_key,
        feedback_events.c.processed_at.is_(None),
    )
    tx.execute(update(feedback_events).where(chosen).values(processed_at=tx.stamp()))


def _rows(tx: Transaction, *chosen: ColumnElement[Any]) -> list[InboxRow]:
    found = select(inbox).where(*chosen).order_by(inbox.c.updated_at, inbox.c.sequence)
    return [InboxRow(**row) for row in tx.execute(found).mappings()]
