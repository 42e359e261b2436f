"""Threads of the inbox, page by page: everything about one issue or pull request, as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import and_, case, delete, func, select, tuple_

from hostler.store.forge_tables import feedback_events, inbox
from hostler.store.inbox import InboxRow
from hostler.store.old_tasks import Thread, rows_of, threads_with_words
from hostler.store.operator_commands import remove_commands, threads_commanded
from hostler.store.pulls import WATCHED
from hostler.store.task_tables import pull_requests, tasks
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction

# What says whether a thread is open: an issue, or a pull request seen as one or by itself.
_TELLING = ("issue", "pull")


@dataclass(frozen=True, slots=True)
class OldThread:
    """What the inbox holds about one issue or pull request.

    `shown`: by kind, GitHub's newest moment; `last`: when anything of it happened here; `telling`:
    its newest versions as an issue and as a pull request; `tasks`: the tasks that it belongs to;
    `commanded`: an operator's command there has no answer yet.
    """

    thread: Thread
    rows: int = 0
    size: int = 0
    shown: dict[str, str] = field(default_factory=dict)
    last: str = ""
    pending: bool = False
    telling: tuple[InboxRow, ...] = ()
    tasks: dict[str, TaskState] = field(default_factory=dict)
    watched_pull: bool = False
    words: bool = False
    commanded: bool = False


def threads_after(tx: Transaction, after: Thread, most: int) -> list[Thread]:
    """The next threads, by repository and number."""
    where = (inbox.c.repo_full_name, inbox.c.scope_number)
    chosen = tuple_(*where) > tuple_(*after)
    statement = select(*where).where(chosen).distinct().order_by(*where).limit(most)
    return [(repo, number) for repo, number in rows_of(tx, statement)]


def look_at_threads(tx: Transaction, threads: Collection[Thread]) -> list[OldThread]:
    """These threads, with all that decides whether they stay."""
    found = _counted(tx, threads)
    for row in _telling(tx, threads):
        key = (row.repo_full_name, row.scope_number)
        found[key] = replace(found[key], telling=(*found[key].telling, row))
    _add_tasks(tx, found)
    for key in threads_with_words(tx, list(found)):
        found[key] = replace(found[key], words=True)
    for key in threads_commanded(tx, list(found)):
        found[key] = replace(found[key], commanded=True)
    return list(found.values())


def newest_shown(tx: Transaction, repo: str) -> str:
    """GitHub's newest moment that a repository has shown; empty: none."""
    newest = select(func.max(inbox.c.updated_at)).where(inbox.c.repo_full_name == repo)
    return tx.execute(newest).scalar() or ""


def newest_issues(tx: Transaction, threads: Collection[Thread]) -> dict[Thread, InboxRow]:
    """The newest version of these issues, as far as any is here."""
    rows = (row for row in _telling(tx, threads) if row.kind == "issue")
    return {(row.repo_full_name, row.scope_number): row for row in rows}


def remove_threads(tx: Transaction, threads: Collection[Thread]) -> None:
    """Remove everything about these issues and pull requests, and what came of it."""
    if not threads:
        return
    chosen = tuple_(inbox.c.repo_full_name, inbox.c.scope_number).in_(list(threads))
    keys = select(inbox.c.repo_full_name, inbox.c.event_key).where(chosen)
    words = tuple_(feedback_events.c.repo_full_name, feedback_events.c.event_key).in_(keys)
    tx.execute(delete(feedback_events).where(words))
    remove_commands(tx, threads)
    tx.execute(delete(inbox).where(chosen))


def _counted(tx: Transaction, threads: Collection[Thread]) -> dict[Thread, OldThread]:
    found: dict[Thread, OldThread] = {}
    where = (inbox.c.repo_full_name, inbox.c.scope_number)
    statement = select(
        *where,
        inbox.c.kind,
        func.count(),
        func.sum(func.length(inbox.c.payload)),
        func.max(inbox.c.updated_at),
        func.max(inbox.c.received_at),
        func.max(func.coalesce(inbox.c.consumed_at, "")),
        func.sum(case((inbox.c.consumed_at.is_(None), 1), else_=0)),
    )
    chosen = statement.where(tuple_(*where).in_(list(threads))).group_by(*where, inbox.c.kind)
    for row in rows_of(tx, chosen):
        repo, number, kind, rows, size, shown, received, consumed, pending = row
        known = found.get((repo, number), OldThread((repo, number)))
        found[repo, number] = replace(
            known,
            rows=known.rows + int(rows),
            size=known.size + int(size),
            shown={**known.shown, kind: shown},
            last=max(known.last, received, consumed),
            pending=known.pending or bool(pending),
        )
    return found


def _telling(tx: Transaction, threads: Collection[Thread]) -> list[InboxRow]:
    """The newest version of each kind that tells whether a thread is open."""
    where = (inbox.c.repo_full_name, inbox.c.scope_number)
    place = func.row_number().over(
        partition_by=(*where, inbox.c.kind),
        order_by=(inbox.c.updated_at.desc(), inbox.c.sequence.desc()),
    )
    chosen = and_(tuple_(*where).in_(list(threads)), inbox.c.kind.in_(_TELLING))
    ranked = select(inbox.c.sequence, place.label("place")).where(chosen).subquery()
    newest = select(ranked.c.sequence).where(ranked.c.place == 1)
    rows = tx.execute(select(inbox).where(inbox.c.sequence.in_(newest))).mappings()
    return [InboxRow(**row) for row in rows]


def tasks_of_threads(
    tx: Transaction, threads: Sequence[Thread]
) -> dict[Thread, dict[str, TaskState]]:
    """The tasks of these issues and pull requests, and their states."""
    found: dict[Thread, dict[str, TaskState]] = {}
    of_issues = select(tasks.c.repo_full_name, tasks.c.issue_number, tasks.c.id, tasks.c.state)
    of_issues = of_issues.where(
        tuple_(tasks.c.repo_full_name, tasks.c.issue_number).in_(list(threads))
    )
    pulls = pull_requests
    of_pulls = (
        select(pulls.c.repo_full_name, pulls.c.pr_number, tasks.c.id, tasks.c.state)
        .select_from(pulls.join(tasks, tasks.c.id == pulls.c.task))
        .where(tuple_(pulls.c.repo_full_name, pulls.c.pr_number).in_(list(threads)))
    )
    for repo, number, task, state in rows_of(tx, of_issues) + rows_of(tx, of_pulls):
        found.setdefault((repo, number), {})[task] = TaskState(state)
    return found


def _add_tasks(tx: Transaction, found: dict[Thread, OldThread]) -> None:
    for key, theirs in tasks_of_threads(tx, list(found)).items():
        found[key] = replace(found[key], tasks=theirs)
    where = (pull_requests.c.repo_full_name, pull_requests.c.pr_number)
    watched = pull_requests.c.status.in_([status.value for status in WATCHED])
    chosen = select(*where).where(tuple_(*where).in_(list(found)), watched)
    for repo, number in rows_of(tx, chosen):
        found[repo, number] = replace(found[repo, number], watched_pull=True)
