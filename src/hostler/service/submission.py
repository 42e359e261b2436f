"""A task by hand on its way into the queue: checked, stored, and what to tell about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.config.settings import Settings
from hostler.flows.lineage import ancestors
from hostler.flows.submitting import Order, submit
from hostler.model import RepoName
from hostler.planner import (
    Blocker,
    Status,
    Submitted,
    blockers_of,
    graph_of,
    normalize,
    queue_of,
    require_no_cycle,
    submitted,
)
from hostler.service.hand import write_task_file
from hostler.service.naming import task_meant
from hostler.service.ordering import Wish, order_for
from hostler.store import Store, Transaction
from hostler.store.references import IssueRef
from hostler.store.tasks import Task, find_task

SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class Taken:
    """A task that was just stored, where it stands, and what it waits for."""

    task: Task
    standing: Submitted
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """Where something is asked for. `parent`: the task of the run we are in, if we are in one;
    `waits`: whoever asks waits for the end."""

    home: Path
    settings: Settings
    parent: str = ""
    waits: bool = False
    served: bool = True


def take(store: Store, at: Context, wish: Wish, depends_on: Iterable[str]) -> Taken:
    """Queue what is asked for, whole or not at all."""
    with store.write(*SCOPES) as tx:
        parent = find_task(tx, at.parent) if at.parent else None
        order = order_for(at.settings, wish, parent)
        order = replace(order, depends_on=_names(tx, order, depends_on))
        graph = graph_of(tx, order.depends_on)
        if parent is not None and at.waits:
            for name in (parent.id, *ancestors(tx, parent)):
                require_no_cycle(graph, name, order.depends_on)
        task = submit(tx, order)
        require_no_cycle(graph, task.id, order.depends_on)
        queue = queue_of(tx, at.settings.tasks.max_concurrent_root_tasks)
        standing = submitted(queue, task)
        if not at.served and standing.status is Status.STARTED:
            standing = Submitted(Status.QUEUED, queue.positions.get(task.id, 0))
        taken = Taken(task, standing, blockers_of(tx, [task]).get(task.id, ()))
    write_task_file(at.home / "projects" / task.project / "tasks" / task.id, task)
    return taken


def _names(tx: Transaction, order: Order, given: Iterable[str]) -> tuple[str, ...]:
    """Dependencies in their one form; a beginning of an id becomes the id."""
    repo = RepoName.parse(order.repo_full_name) if order.repo_full_name else None
    names = normalize(given, repo=repo)
    found = (name if IssueRef.parse(name) else task_meant(tx, name).id for name in names)
    return tuple(dict.fromkeys(found))
