"""Find and delete old rows: runs, tasks, threads, writes, whole repositories."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    case,
    delete,
    func,
    or_,
    select,
    tuple_,
    update,
)

from hostler.errors import StoreConflict
from hostler.store.inbox import InboxRow
from hostler.store.operator import delete_audit_entries, remove_commands, threads_commanded
from hostler.store.outbox import OPEN, WriteState
from hostler.store.pull_requests import WATCHED
from hostler.store.runs import OPEN as OPEN_RUNS
from hostler.store.runs import RunState, open_runs
from hostler.store.schema import (
    action_tokens,
    feedback_events,
    inbox,
    issue_comment_cursors,
    outbox,
    pull_requests,
    runs,
    tasks,
)
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction, batches


@dataclass(frozen=True, slots=True)
class OldRun:
    """One run; without a task, where that is gone."""

    run: str
    task_id: str
    folder: str
    state: RunState
    admitted_at: str
    ended_at: str | None
    newest: bool
    task_state: TaskState | None
    task_since: str | None


def runs_before(tx: Transaction, moment: str, after: str, most: int) -> list[OldRun]:
    """The next runs by name that were admitted before a moment."""
    return _runs(tx, and_(runs.c.run > after, runs.c.admitted_at < moment), most)


def runs_named(tx: Transaction, names: Collection[str]) -> list[OldRun]:
    """These runs, as far as they exist."""
    return _runs(tx, runs.c.run.in_(list(names)), len(names))


def _runs(tx: Transaction, chosen: ColumnElement[bool], most: int) -> list[OldRun]:
    other = runs.alias("other")
    newest = select(func.max(other.c.fence)).where(other.c.task_id == runs.c.task_id)
    statement = (
        select(
            runs.c.run,
            runs.c.task_id,
            runs.c.folder,
            runs.c.state,
            runs.c.admitted_at,
            runs.c.ended_at,
            (runs.c.fence == newest.scalar_subquery()).label("newest"),
            tasks.c.state.label("task_state"),
            tasks.c.state_since.label("task_since"),
        )
        .select_from(runs.outerjoin(tasks, tasks.c.id == runs.c.task_id))
        .where(chosen)
        .order_by(runs.c.run)
        .limit(most)
    )
    return [_run(dict(row)) for row in tx.execute(statement).mappings()]


def _run(row: dict[str, Any]) -> OldRun:
    state = row["task_state"]
    changed = {
        "state": RunState(row["state"]),
        "newest": bool(row["newest"]),
        "task_state": TaskState(state) if state else None,
    }
    return OldRun(**row | changed)


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
        delete_audit_entries(tx, batch)
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


# What a write holds whose text is gone.
BARE = "{}"
_COLUMNS = (
    *("sequence", "repo_full_name", "token", "kind", "scope_number", "state", "updated_at"),
    "result_id",
)


@dataclass(frozen=True, slots=True)
class OldWrite:
    """One write. `superseded`: a later one has the same result; `needed`: an open one waits."""

    sequence: int
    repo_full_name: str
    token: str
    kind: str
    scope_number: int
    state: WriteState
    updated_at: str
    size: int
    bare: bool
    superseded: bool
    needed: bool

    @property
    def settled(self) -> bool:
        return self.state not in OPEN


def writes_before(
    tx: Transaction, moment: str, after: int, most: int, alike: Mapping[str, Sequence[str]]
) -> list[OldWrite]:
    """The next writes that were queued before a moment.

    `alike`: by kind, all kinds whose results are of one sort: only these are compared.
    """
    return _writes(tx, and_(outbox.c.sequence > after, outbox.c.created_at < moment), most, alike)


def writes_named(
    tx: Transaction, sequences: Collection[int], alike: Mapping[str, Sequence[str]]
) -> list[OldWrite]:
    """These writes, as far as they exist."""
    return _writes(tx, outbox.c.sequence.in_(list(sequences)), len(sequences), alike)


def unsent(tx: Transaction, threads: Collection[Thread]) -> tuple[set[Thread], set[str]]:
    """Which of these threads have writes that are not settled; and tokens of such on no thread."""
    where = (outbox.c.repo_full_name, outbox.c.scope_number)
    open_ = outbox.c.state.in_([state.value for state in OPEN])
    here = select(*where).where(open_, tuple_(*where).in_(list(threads))).distinct()
    nowhere = select(outbox.c.token).where(open_, outbox.c.scope_number == 0)
    found = {(repo, number) for repo, number in rows_of(tx, here)} if threads else set()
    return found, set(tx.execute(nowhere).scalars())


def remove_writes(tx: Transaction, writes: Sequence[OldWrite]) -> None:
    """Remove settled writes with their tokens."""
    names = [(write.repo_full_name, write.token) for write in writes if write.settled]
    for table in (outbox, action_tokens):
        chosen = tuple_(table.c.repo_full_name, table.c.token).in_(names)
        tx.execute(delete(table).where(chosen))


def empty_writes(tx: Transaction, writes: Sequence[OldWrite]) -> None:
    """Forget the texts of settled writes; who they were, and what came of them, stays."""
    chosen = outbox.c.sequence.in_([write.sequence for write in writes if write.settled])
    tx.execute(update(outbox).where(chosen).values(payload=BARE))


def _writes(
    tx: Transaction, chosen: ColumnElement[bool], most: int, alike: Mapping[str, Sequence[str]]
) -> list[OldWrite]:
    columns = (outbox.c[name] for name in _COLUMNS)
    extent = (
        func.length(outbox.c.payload).label("size"),
        case((outbox.c.payload == BARE, 1), else_=0).label("bare"),
    )
    statement = select(*columns, *extent).where(chosen).order_by(outbox.c.sequence).limit(most)
    rows = [dict(row) for row in tx.execute(statement).mappings()]
    later, needed = _newest(tx, rows), _needed(tx)
    return [_write(row, later, needed, alike) for row in rows]


# By repository, kind and result, the newest write.
_Newest = Mapping[tuple[str, str, int], int]


def _newest(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> _Newest:
    """The newest writes with the same results as these."""
    repos = {row["repo_full_name"] for row in rows}
    results = {row["result_id"] for row in rows if row["result_id"] is not None}
    if not results:
        return {}
    what = (outbox.c.repo_full_name, outbox.c.kind, outbox.c.result_id)
    same = and_(outbox.c.repo_full_name.in_(repos), outbox.c.result_id.in_(results))
    newest = select(*what, func.max(outbox.c.sequence)).where(same).group_by(*what)
    return {(repo, kind, id_): last for repo, kind, id_, last in rows_of(tx, newest)}


def _needed(tx: Transaction) -> set[tuple[str, str]]:
    """Repository and token of what writes that are not settled depend on."""
    open_ = outbox.c.state.in_([state.value for state in OPEN])
    waiting = select(outbox.c.repo_full_name, outbox.c.depends_on)
    rows = rows_of(tx, waiting.where(open_, outbox.c.depends_on.is_not(None)))
    return {(repo, token) for repo, token in rows}


def _write(
    row: dict[str, Any],
    newest: _Newest,
    needed: Collection[tuple[str, str]],
    alike: Mapping[str, Sequence[str]],
) -> OldWrite:
    repo, result = row["repo_full_name"], row.pop("result_id")
    same = (newest.get((repo, kind, result), 0) for kind in alike.get(row["kind"], ()))
    changed = {
        "state": WriteState(row["state"]),
        "bare": bool(row["bare"]),
        "superseded": max(same, default=0) > row["sequence"],
        "needed": (repo, row["token"]) in needed,
    }
    return OldWrite(**row | changed)


def remove_task(tx: Transaction, task: str) -> bool:
    """Remove a task and its runs; whether it was removed. One with an open run stays."""
    if open_runs(tx, task_id=task):
        return False
    tx.execute(delete(runs).where(runs.c.task_id == task))
    delete_audit_entries(tx, [task])
    return tx.execute(delete(tasks).where(tasks.c.id == task)).rowcount == 1
