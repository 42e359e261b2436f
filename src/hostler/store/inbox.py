"""Events received from GitHub: the inbox, feedback events, deferred events and whole scans."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update

from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.store.schema import feedback_events, inbox, tasks
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction, batches, insert_if_absent, insert_if_new

# SQLite takes only so many values in one statement.


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One version of something on GitHub. `scope_number` is its issue or pull request.

    `deferred_at`: since when it waits for its task to be unblocked.
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
    deferred_at: str | None = None


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


def rows_to_look_at(tx: Transaction, repo: RepoName, kinds: Collection[str]) -> list[InboxRow]:
    """Events of these kinds without effect, oldest first; not what is known to wait for a block.

    The mark alone hides nothing: what is marked is shown again when its task is not blocked.
    """
    pending = and_(
        inbox.c.repo_full_name == str(repo),
        inbox.c.consumed_at.is_(None),
        inbox.c.kind.in_(list(kinds)),
    )
    found = list(tx.execute(select(inbox).where(pending, inbox.c.deferred_at.is_(None))).mappings())
    released = sorted(_held_threads(tx, repo) - blocked_threads(tx, repo))
    for batch in batches(released):
        here = inbox.c.scope_number.in_(batch)
        rows = tx.execute(select(inbox).where(pending, inbox.c.deferred_at.is_not(None), here))
        found += rows.mappings()
    return sorted((InboxRow(**row) for row in found), key=lambda row: row.sequence)


def hold(tx: Transaction, row: InboxRow) -> None:
    """Note that an event waits for its task to be unblocked."""
    same = inbox.c.sequence == row.sequence
    tx.execute(
        update(inbox).where(same, inbox.c.deferred_at.is_(None)).values(deferred_at=tx.stamp())
    )


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
        inbox.c.deferred_at.is_not(None),
    )


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a stream has been read."""

    last_updated_at: str
    last_comment_id: int


@dataclass(frozen=True, slots=True)
class Observed:
    """A write of ours that was seen."""

    token: str
    comment_id: int
    updated_at: str


@dataclass(frozen=True, slots=True)
class FeedbackScan:
    """One reading of a thread. A watermark of None stays where it is."""

    pr_number: int
    events: tuple[InboxRow, ...] = ()
    observed: tuple[Observed, ...] = ()
    review_comments: Watermark | None = None
    issue_comments: Watermark | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of the events of a reading, by their keys."""

    new: tuple[str, ...] = ()
    deduped: tuple[str, ...] = ()
