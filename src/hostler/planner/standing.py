"""The edge: rows become scenes and queues, and what holds a task becomes a row.

Everything takes an open transaction. Finished tasks are read only where somebody names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from hostler.planner.dependencies import Graph
from hostler.planner.queue import Queue, by_order, is_queued, is_root, occupants, positions
from hostler.planner.readiness import Blocker, Scene, awaits, blockers, graph, hopeless, judge
from hostler.store.dependencies import (
    TaskFacts,
    facts_of,
    issues_known,
    last_runs,
    tasks_named,
    tasks_of_issues,
    waiting_dependents,
)
from hostler.store.runs import open_runs
from hostler.store.tasks import OVER, IssueRef, Task, TaskState, change_task, tasks_in
from hostler.store.transaction import Transaction

UNFINISHED = tuple(state for state in TaskState if state not in OVER)
# The states in which a successful run can stand for a task that is not over.
_MAY_STAND = (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)


class News(StrEnum):
    """What there is to tell about what holds a task."""

    NONE = "none"
    CHANGED = "changed"
    CLEAR = "clear"


def blockers_of(tx: Transaction, tasks: Iterable[Task]) -> dict[str, tuple[Blocker, ...]]:
    """What holds each of these tasks; those that nothing holds are left out."""
    asked = [facts_of(task) for task in tasks if task.depends_on]
    found = _held(tx, [task for task in asked if awaits(task)])
    return {task: held for task, held in found.items() if held}


def hopeless_of(tx: Transaction) -> dict[str, tuple[Blocker, ...]]:
    """All tasks that can never proceed by themselves, and why."""
    waiting = waiting_dependents(tx, UNFINISHED)
    return hopeless(waiting, judge(_scene(tx, waiting))) if waiting else {}


def graph_of(tx: Transaction, names: Iterable[str]) -> Graph:
    """Everything that can be reached from these names; see `require_no_cycle`."""
    tasks, issues = _reach(tx, {}, set(names))
    return graph(Scene(tasks, issues))


def queue_of(tx: Transaction, cap: int = 0, rank: Callable[[Task], Any] = by_order) -> Queue:
    """The root tasks that wait, what holds them, and who has a place."""
    queued = tasks_in(tx, (TaskState.QUEUED,))
    held = blockers_of(tx, queued)
    waiting = tuple(task for task in queued if is_queued(task))
    return Queue(waiting, held, positions(waiting, held, rank), occupied(tx), cap)


def occupied(tx: Transaction) -> frozenset[str]:
    """Root tasks that have a place, agents of stopped and unknown tasks included."""
    busy = {run.task_id for run in open_runs(tx)}
    known = tasks_named(tx, busy)
    with_runs = {task: task not in known or is_root(known[task]) for task in busy}
    return occupants(tasks_in(tx, (TaskState.RUNNING,)), with_runs)


def note_blockers(tx: Transaction, task: Task, held: Collection[Blocker]) -> tuple[Task, News]:
    """Store what holds a task; the task as it is now, and whether there is news."""
    news = news_of(task, held)
    if news is News.NONE:
        return task, news
    return change_task(tx, task, replace(task, blockers=_noted(held))), news


def news_of(task: Task, held: Collection[Blocker]) -> News:
    """Whether what holds a task is another than what is noted: a name, or hope lost or found.

    Each step of what is waited for is no news.
    """
    if _noted(held) == task.blockers:
        return News.NONE
    return News.CHANGED if held else News.CLEAR


def _noted(held: Collection[Blocker]) -> str:
    return json.dumps([[one.name, one.hopeless] for one in held]) if held else ""


def _held(tx: Transaction, asked: list[TaskFacts]) -> dict[str, tuple[Blocker, ...]]:
    if not asked:
        return {}
    judged = judge(_scene(tx, asked))
    return {task.id: blockers(task, judged) for task in asked}


def _scene(tx: Transaction, asked: Iterable[TaskFacts]) -> Scene:
    start = {task.id: task for task in asked}
    tasks, issues = _reach(tx, start, {n for task in start.values() for n in task.depends_on})
    bare = [ref for name, found in issues.items() if not found and (ref := IssueRef.parse(name))]
    states = {str(ref): seen.state for ref, seen in issues_known(tx, bare).items()}
    standing = [task.id for task in tasks.values() if task.state in _MAY_STAND]
    return Scene(tasks, issues, states, last_runs(tx, standing))


def _reach(
    tx: Transaction, tasks: dict[str, TaskFacts], names: set[str]
) -> tuple[dict[str, TaskFacts], dict[str, tuple[str, ...]]]:
    """Tasks and issues that names lead to. Whoever waits for nobody ends the way."""
    issues: dict[str, tuple[str, ...]] = {}
    seen = set(tasks)
    while names:
        seen |= names
        refs = [ref for name in sorted(names) if (ref := IssueRef.parse(name)) is not None]
        theirs = tasks_of_issues(tx, refs)
        issues |= {str(ref): tuple(task.id for task in theirs.get(ref, ())) for ref in refs}
        found = tasks_named(tx, names) | {t.id: t for group in theirs.values() for t in group}
        tasks = found | tasks
        waiting = (task for task in found.values() if awaits(task))
        names = {name for task in waiting for name in task.depends_on} - seen
    return tasks, issues
