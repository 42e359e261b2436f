"""A task by hand on its way into the queue: checked, stored, and what to tell about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.flows.lineage import ancestors
from hostler.flows.submitting import Order, submit
from hostler.governor import look_around, read_policy
from hostler.model import RepoName
from hostler.planner import (
    Blocker,
    Submitted,
    blockers_of,
    graph_of,
    normalize,
    queue_of,
    require_no_cycle,
    submitted,
)
from hostler.service.candidates import WAITING, Held
from hostler.service.hand import write_task_file
from hostler.service.naming import task_meant
from hostler.service.ordering import Wish, order_for
from hostler.service.presence import Presence
from hostler.service.space import rooms_of
from hostler.service.why import Inquiry, blocker_json, holds
from hostler.store import Store, Transaction
from hostler.store.tasks import IssueRef, Task, find_task

SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class Received:
    """What to tell about a task that was just stored: plain facts, for any face."""

    id: str
    status: str
    queue_position: int | None
    gate: str | None
    why: str | None
    project: str
    parent_task: str | None
    depends_on: tuple[str, ...]
    blockers: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """A task that was just stored, where it stands, which gate holds it, and what it waits for."""

    task: Task
    standing: Submitted
    held: Held | None = None
    blockers: tuple[Blocker, ...] = ()

    def received(self) -> Received:
        """What to tell about it."""
        held = self.held
        return Received(
            id=self.task.id,
            status=self.standing.status.value,
            queue_position=self.standing.queue_position,
            gate=(str(held.gate) or None) if held else None,
            why=held.why if held else None,
            project=self.task.project,
            parent_task=self.task.parent_task,
            depends_on=self.task.depends_on,
            blockers=tuple(blocker_json(one) for one in self.blockers),
        )


@dataclass(frozen=True, slots=True)
class Context:
    """Where something is asked for. `parent`: the task of the run we are in, if we are in one;
    `waits`: whoever asks waits for the end."""

    home: Path
    settings: Settings
    parent: str = ""
    waits: bool = False
    presence: Presence = field(default_factory=Presence)


@dataclass(frozen=True, slots=True)
class HandQueue:
    """Where tasks by hand are given, on the database."""

    store: Store
    at: Context

    def submit(self, wish: Wish, depends_on: Iterable[str]) -> Received:
        """Queue what is asked for, whole or not at all."""
        return take(self.store, self.at, wish, depends_on).received()


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
    write_task_file(at.home / "projects" / task.project / "tasks" / task.id, task)
    return _seen(store, at, task)


def _seen(store: Store, at: Context, task: Task) -> Taken:
    """How it stands a moment later, by the gates of admission: it may have begun already."""
    asked: Inquiry | HostlerError
    try:
        policy = read_policy(at.home, at.settings)
        asked = Inquiry(store, at.settings, policy, look_around(), at.presence, rooms_of(at.home))
    except HostlerError as error:
        asked = error
    with store.read() as tx:
        present = find_task(tx, task.id) or task
        held = _held(tx, asked, present)
        queue = queue_of(tx, at.settings.tasks.max_concurrent_root_tasks)
        nobody = present.state in WAITING and not at.presence.takes_tasks
        standing = submitted(queue, present, held=held is not None or nobody)
        return Taken(present, standing, held, blockers_of(tx, [present]).get(task.id, ()))


def _held(tx: Transaction, asked: Inquiry | HostlerError, task: Task) -> Held | None:
    """The gate that holds a task; caps that cannot be read hold it, as far as we can tell."""
    if task.state not in WAITING:
        return None
    if isinstance(asked, HostlerError):
        return Held("", asked.what, asked.remedy)
    return holds(tx, asked, task)


def _names(tx: Transaction, order: Order, given: Iterable[str]) -> tuple[str, ...]:
    """Dependencies in their one form; a beginning of an id becomes the id."""
    repo = RepoName.parse(order.repo_full_name) if order.repo_full_name else None
    names = normalize(given, repo=repo)
    found = (name if IssueRef.parse(name) else task_meant(tx, name).id for name in names)
    return tuple(dict.fromkeys(found))
