"""Words that wait for a blocked task: marked when they are first looked at, then passed over."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from sqlalchemy import ColumnElement, and_, func, select, update

from hostler.model import RepoName
from hostler.store.forge_tables import inbox
from hostler.store.inbox import InboxRow
from hostler.store.task_tables import tasks
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction, batches


def rows_to_look_at(tx: Transaction, repo: RepoName, kinds: Collection[str]) -> list[InboxRow]:
    """Events of these kinds without effect, oldest first; not what is known to wait for a block.

    The mark alone hides nothing: what is marked is shown again when its task is not blocked.
    """
    pending = and_(
        inbox.c.repo_full_name == str(repo),
        inbox.c.consumed_at.is_(None),
        inbox.c.kind.in_(list(kinds)),
    )
    found = list(tx.execute(select(inbox).where(pending, inbox.c.held_at.is_(None))).mappings())
    released = sorted(_held_threads(tx, repo) - blocked_threads(tx, repo))
    for batch in batches(released):
        here = inbox.c.scope_number.in_(batch)
        rows = tx.execute(select(inbox).where(pending, inbox.c.held_at.is_not(None), here))
        found += rows.mappings()
    return sorted((InboxRow(**row) for row in found), key=lambda row: row.sequence)


def hold(tx: Transaction, row: InboxRow) -> None:
    """Note that an event waits for its task to be unblocked."""
    same = inbox.c.sequence == row.sequence
    tx.execute(update(inbox).where(same, inbox.c.held_at.is_(None)).values(held_at=tx.stamp()))


def count_held(tx: Transaction, repo: RepoName, threads: Collection[int]) -> int:
    """How many words on these threads wait for their task to be unblocked; CI has none."""
    said = inbox.c.kind != "workflow_run"
    chosen = and_(*_held(repo), said, inbox.c.scope_number.in_(list(threads)))
    return int(tx.execute(select(func.count()).select_from(inbox).where(chosen)).scalar_one())


def blocked_threads(tx: Transaction, repo: RepoName) -> set[int]:
    """The issues and pull requests of blocked tasks."""
    blocked = and_(
        tasks.c.state == TaskState.BLOCKED.value,
        tasks.c.repo_full_name == str(repo),
    )
    rows = tx.execute(select(tasks.c.issue_number, tasks.c.pr_number).where(blocked)).all()
    return {number for number in chain.from_iterable(rows) if number}


def _held_threads(tx: Transaction, repo: RepoName) -> set[int]:
    statement = select(inbox.c.scope_number).where(*_held(repo)).distinct()
    return set(tx.execute(statement).scalars())


def _held(repo: RepoName) -> tuple[ColumnElement[bool], ...]:
    return (
        inbox.c.repo_full_name == str(repo),
        inbox.c.consumed_at.is_(None),
        inbox.c.held_at.is_not(None),
    )
