"""Dependencies between tasks, and the states of the issues that they name."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, and_, func, select, tuple_, update

from hostler.model import RepoName
from hostler.store.runs import RunState
from hostler.store.schema import issue_states, runs, tasks
from hostler.store.tasks import IssueRef, Task, TaskState
from hostler.store.transaction import Transaction, batches, insert_or_update

# What an issue can be: the last means that GitHub shows us none of that number.
OPEN, CLOSED, MISSING = "open", "closed", "missing"


@dataclass(frozen=True, slots=True)
class IssueState:
    """One issue. `seen_at` is a stamp of ours."""

    repo_full_name: str
    issue_number: int
    state: str
    title: str
    seen_at: str


def note_issue(tx: Transaction, repo: RepoName, number: int, state: str, title: str = "") -> None:
    """Know what an issue is now."""
    row = {
        "repo_full_name": str(repo),
        "issue_number": number,
        "state": state,
        "title": title,
        "seen_at": tx.stamp(),
    }
    insert_or_update(tx, issue_states, row)


def issues_seen(
    tx: Transaction, wanted: Collection[tuple[str, int]]
) -> dict[tuple[str, int], IssueState]:
    """What is known about these issues, by repository and number."""
    if not wanted:
        return {}
    chosen = tuple_(issue_states.c.repo_full_name, issue_states.c.issue_number).in_(list(wanted))
    rows = tx.execute(select(issue_states).where(chosen)).mappings()
    return {(row["repo_full_name"], row["issue_number"]): IssueState(**row) for row in rows}


# SQLite takes only so many values in one statement.
T = TypeVar("T")

_COLUMNS = (
    tasks.c.id,
    tasks.c.state,
    tasks.c.reason,
    tasks.c.attempt,
    tasks.c.depends_on,
    tasks.c.repo_full_name,
    tasks.c.issue_number,
    tasks.c.pr_number,
    tasks.c.finishing,
    tasks.c.parent_task,
)


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What matters of a task to those that depend on it."""

    id: str
    state: TaskState
    reason: str = ""
    attempt: int = 0
    depends_on: tuple[str, ...] = ()
    repo_full_name: str | None = None
    issue_number: int | None = None
    pr_number: int | None = None
    finishing: bool = False
    parent_task: str | None = None


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run of a task: how far it is, and what it came to."""

    state: RunState
    outcome: str | None


def facts_of(task: Task) -> TaskFacts:
    """The same of a task that was read whole."""
    return TaskFacts(**{name: getattr(task, name) for name in TaskFacts.__slots__})


def tasks_named(tx: Transaction, ids: Collection[str]) -> dict[str, TaskFacts]:
    """These tasks, as far as they exist."""
    found: dict[str, TaskFacts] = {}
    for batch in batches(sorted(set(ids))):
        found |= {one.id: one for one in _facts(tx, tasks.c.id.in_(batch))}
    return found


def tasks_of_issues(
    tx: Transaction, refs: Collection[IssueRef]
) -> dict[IssueRef, tuple[TaskFacts, ...]]:
    """The tasks of these issues, oldest first; issues without any are left out."""
    found: dict[IssueRef, tuple[TaskFacts, ...]] = {}
    numbers: dict[RepoName, list[int]] = {}
    for ref in sorted(set(refs)):
        numbers.setdefault(ref.repo, []).append(ref.number)
    spellings = repository_spellings(tx) if numbers else {}
    for repo, wanted in numbers.items():
        spelled = tasks.c.repo_full_name.in_(spellings.get(str(repo), []))
        for batch in batches(wanted):
            for one in _facts(tx, and_(spelled, tasks.c.issue_number.in_(batch))):
                name = IssueRef(repo, one.issue_number or 0)
                found[name] = (*found.get(name, ()), one)
    return found


def rename_dependencies(tx: Transaction, old: RepoName, new: RepoName) -> None:
    """Let those that wait for issues of a repository find them under its new name."""
    named = tasks.c.depends_on.contains(f'"{old}#'.lower(), autoescape=True)
    for row in tx.execute(select(tasks.c.id, tasks.c.depends_on).where(named)).all():
        words = [_renamed(word, old, new) for word in json.loads(row.depends_on)]
        chosen = tasks.c.id == row.id
        tx.execute(update(tasks).where(chosen).values(depends_on=json.dumps(words)))


def _renamed(word: str, old: RepoName, new: RepoName) -> str:
    ref = IssueRef.parse(word)
    if ref is None or ref != IssueRef.of(old, ref.number):
        return word
    return str(IssueRef.of(new, ref.number))


def repository_spellings(tx: Transaction) -> dict[str, list[str]]:
    """How the repositories of tasks are spelled, by their names in small letters.

    Steps from one name to the next through the index: its cost is the number of repositories.
    """
    first = select(func.min(tasks.c.repo_full_name).label("name"))
    names = first.cte("names", recursive=True)
    following = (
        select(func.min(tasks.c.repo_full_name))
        .where(tasks.c.repo_full_name > names.c.name)
        .scalar_subquery()
    )
    names = names.union_all(select(following).where(names.c.name.is_not(None)))
    found: dict[str, list[str]] = {}
    for (name,) in tx.execute(select(names.c.name).where(names.c.name.is_not(None))):
        found.setdefault(str(name).lower(), []).append(str(name))
    return found


def last_runs(tx: Transaction, ids: Collection[str]) -> dict[str, LastRun]:
    """The newest run of each of these tasks; those without one are left out."""
    found: dict[str, LastRun] = {}
    newer = runs.alias("newer")
    newest = select(func.max(newer.c.fence)).where(newer.c.task_id == runs.c.task_id)
    for batch in batches(sorted(set(ids))):
        chosen = and_(runs.c.task_id.in_(batch), runs.c.fence == newest.scalar_subquery())
        columns = (runs.c.task_id, runs.c.state, runs.c.outcome)
        for row in tx.execute(select(*columns).where(chosen)).mappings():
            found[row["task_id"]] = LastRun(RunState(row["state"]), row["outcome"])
    return found


def issues_known(tx: Transaction, refs: Collection[IssueRef]) -> dict[IssueRef, IssueState]:
    """What was last seen of these issues."""
    found: dict[IssueRef, IssueState] = {}
    for batch in batches(sorted(set(refs))):
        seen = issues_seen(tx, [(str(ref.repo), ref.number) for ref in batch])
        found |= {ref: seen[key] for ref in batch if (key := (str(ref.repo), ref.number)) in seen}
    return found


def waiting_dependents(tx: Transaction, states: Iterable[TaskState]) -> list[TaskFacts]:
    """Tasks in these states that depend on something and have not begun, in their order."""
    chosen = and_(
        tasks.c.state.in_([state.value for state in states]),
        tasks.c.attempt == 0,
        tasks.c.depends_on != "[]",
    )
    return _facts(tx, chosen)


def _facts(tx: Transaction, chosen: ColumnElement[bool]) -> list[TaskFacts]:
    rows = tx.execute(select(*_COLUMNS).where(chosen).order_by(tasks.c.order, tasks.c.id))
    return [_read(dict(row)) for row in rows.mappings()]


def _read(row: dict[str, Any]) -> TaskFacts:
    changed = {
        "state": TaskState(row["state"]),
        "depends_on": tuple(json.loads(row["depends_on"])),
        "finishing": bool(row["finishing"]),
    }
    return TaskFacts(**row | changed)
