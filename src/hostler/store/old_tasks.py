"""Families of tasks, page by page, what ties them to the rest, and taking them out whole."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Table, and_, delete, func, or_, select, tuple_

from hostler.errors import StoreConflict
from hostler.store.deeds import forget_deeds
from hostler.store.forge_tables import feedback_events
from hostler.store.pulls import WATCHED
from hostler.store.run_tables import runs
from hostler.store.runs import OPEN as OPEN_RUNS
from hostler.store.task_tables import issue_comment_cursors, pull_requests, tasks
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction, batches

# SQLite takes only so many values in one statement.
T = TypeVar("T")
# A repository and the number of an issue or pull request there.
Thread = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OldTask:
    """What housekeeping must know of a task. `size` is that of its texts."""

    id: str
    project: str
    repo_full_name: str | None
    issue_number: int | None
    state: TaskState
    state_since: str
    created_at: str
    updated_at: str
    parent_task: str | None
    size: int

    @property
    def thread(self) -> Thread | None:
        """Its issue's, if it has one."""
        if self.repo_full_name is None or self.issue_number is None:
            return None
        return self.repo_full_name, self.issue_number


@dataclass(frozen=True, slots=True)
class Ties:
    """What ties some tasks to the rest, by their names.

    `ended`: when a run of theirs ended last; `pulls`: their pull requests, and whether each is
    final; `words`: those with words that nobody has answered.
    """

    open_runs: frozenset[str]
    ended: Mapping[str, str]
    pulls: Mapping[str, Mapping[Thread, bool]]
    words: frozenset[str]


def roots_before(tx: Transaction, moment: str, after: str, most: int) -> list[str]:
    """The next tasks by name that have no parent here and were made before a moment."""
    parent = tasks.alias("parent")
    joined = tasks.outerjoin(parent, parent.c.id == tasks.c.parent_task)
    chosen = and_(parent.c.id.is_(None), tasks.c.created_at < moment, tasks.c.id > after)
    statement = select(tasks.c.id).select_from(joined).where(chosen).order_by(tasks.c.id)
    return list(tx.execute(statement.limit(most)).scalars())


def families(tx: Transaction, roots: Iterable[str]) -> dict[str, list[OldTask]]:
    """Tasks with all that came from them, each before its children; by root."""
    found = {task.id: [task] for task in _among(tx, tasks.c.id, roots)}
    root_of = {name: name for name in found}
    newest = list(found)
    while newest:
        below = [task for task in _among(tx, tasks.c.parent_task, newest) if task.id not in root_of]
        for task in below:
            root_of[task.id] = root_of[task.parent_task or ""]
            found[root_of[task.id]].append(task)
        newest = [task.id for task in below]
    return found


def ties_of(tx: Transaction, members: Sequence[OldTask]) -> Ties:
    """What ties these tasks to runs, pull requests and people."""
    names = [task.id for task in members]
    pulls = _pulls_of(tx, names)
    return Ties(_open_runs(tx, names), _ended(tx, names), pulls, _with_words(tx, members, pulls))


def depended_on(tx: Transaction) -> dict[str, set[str]]:
    """What tasks that are not done depend on: by name or issue, the tasks that name it."""
    # Named one by one: an index answers that, and what is done is never read.
    undone = [state.value for state in TaskState if state is not TaskState.DONE]
    chosen = and_(tasks.c.state.in_(undone), tasks.c.depends_on != "[]")
    found: dict[str, set[str]] = {}
    for task, names in rows_of(tx, select(tasks.c.id, tasks.c.depends_on).where(chosen)):
        for name in json.loads(names):
            found.setdefault(name, set()).add(task)
    return found


def remove_tasks(tx: Transaction, members: Sequence[OldTask]) -> None:
    """Remove tasks with their runs, pull requests and words; refused if one has an open run.

    What an issue has stays as long as another task of it does.
    """
    names = [task.id for task in members]
    if _open_runs(tx, names):
        raise StoreConflict("A task with an open run cannot be removed.")
    pulls = [thread for theirs in _pulls_of(tx, names).values() for thread in theirs]
    for batch in batches(names):
        tx.execute(delete(runs).where(runs.c.task_id.in_(batch)))
        forget_deeds(tx, batch)
        tx.execute(delete(tasks).where(tasks.c.id.in_(batch)))
    _forget(tx, "pr_number", (pull_requests, feedback_events), pulls)
    issues = {task.thread for task in members if task.thread is not None}
    left = issues - _with_tasks(tx, issues)
    _forget(tx, "issue_number", (issue_comment_cursors, feedback_events), left)


def _forget(
    tx: Transaction, number: str, tables: Iterable[Table], threads: Collection[Thread]
) -> None:
    for batch in batches(threads):
        for table in tables:
            where = tuple_(table.c.repo_full_name, table.c[number])
            tx.execute(delete(table).where(where.in_(batch)))


def _with_tasks(tx: Transaction, issues: Collection[Thread]) -> set[Thread]:
    """Which of these issues have tasks."""
    found: set[Thread] = set()
    where = (tasks.c.repo_full_name, tasks.c.issue_number)
    for batch in batches(issues):
        rows = rows_of(tx, select(*where).where(tuple_(*where).in_(batch)))
        found |= {(repo, issue) for repo, issue in rows}
    return found


def _open_runs(tx: Transaction, names: Collection[str]) -> frozenset[str]:
    open_ = runs.c.state.in_([state.value for state in OPEN_RUNS])
    found: set[str] = set()
    for batch in batches(names):
        chosen = and_(runs.c.task_id.in_(batch), open_)
        found |= set(tx.execute(select(runs.c.task_id).where(chosen)).scalars())
    return frozenset(found)


def _ended(tx: Transaction, names: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    last = func.max(runs.c.ended_at)
    for batch in batches(names):
        statement = select(runs.c.task_id, last).where(runs.c.task_id.in_(batch))
        rows = rows_of(tx, statement.group_by(runs.c.task_id))
        found |= {task: at for task, at in rows if at}
    return found


def _pulls_of(tx: Transaction, names: Collection[str]) -> dict[str, dict[Thread, bool]]:
    found: dict[str, dict[Thread, bool]] = {}
    table, watched = pull_requests, {status.value for status in WATCHED}
    columns = (table.c.task, table.c.repo_full_name, table.c.pr_number, table.c.status)
    for batch in batches(names):
        rows = rows_of(tx, select(*columns).where(table.c.task.in_(batch)))
        for task, repo, number, status in rows:
            found.setdefault(task, {})[repo, number] = status not in watched
    return found


def _with_words(
    tx: Transaction, members: Iterable[OldTask], pulls: Mapping[str, Mapping[Thread, bool]]
) -> frozenset[str]:
    owners: dict[Thread, str] = {}
    for task in members:
        if task.thread is not None:
            owners[task.thread] = task.id
        owners |= dict.fromkeys(pulls.get(task.id, ()), task.id)
    return frozenset(owners[thread] for thread in threads_with_words(tx, owners))


def threads_with_words(tx: Transaction, threads: Collection[Thread]) -> set[Thread]:
    """Which of these issues and pull requests have words that nobody has answered."""
    found: set[Thread] = set()
    table = feedback_events
    for batch in batches(threads):
        on_issue = and_(
            table.c.pr_number == 0, tuple_(table.c.repo_full_name, table.c.issue_number).in_(batch)
        )
        on_pull = tuple_(table.c.repo_full_name, table.c.pr_number).in_(batch)
        statement = select(table.c.repo_full_name, table.c.pr_number, table.c.issue_number)
        waiting = statement.where(table.c.processed_at.is_(None), or_(on_issue, on_pull))
        found |= {(repo, pull or issue) for repo, pull, issue in rows_of(tx, waiting)}
    return found


def rows_of(tx: Transaction, statement: Select[Any]) -> list[Any]:
    """Rows to be taken apart by place."""
    return list(tx.execute(statement))


def _among(
    tx: Transaction, column: ColumnElement[str | None], names: Iterable[str]
) -> list[OldTask]:
    wanted = (tasks.c[name] for name in OldTask.__slots__ if name != "size")
    texts = func.length(tasks.c.prompt) + func.length(tasks.c.note) + func.length(tasks.c.title)
    statement = select(*wanted, texts.label("size"))
    found: list[OldTask] = []
    for batch in batches(list(names)):
        rows = tx.execute(statement.where(column.in_(batch)).order_by(tasks.c.id)).mappings()
        found += [_task(dict(row)) for row in rows]
    return found


def _task(row: dict[str, Any]) -> OldTask:
    return OldTask(**row | {"state": TaskState(row["state"])})
