"""What needs a person: since when, why, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hostler.model import parse_stamp
from hostler.planner import Blocker, hopeless_of
from hostler.service.next_steps import next_step
from hostler.service.pages import about
from hostler.store import Transaction
from hostler.store.tasks import Task, TaskState, find_task, newest_in
from hostler.store.transaction import age

# Nothing goes on with these before somebody acts.
PERSON = (TaskState.NEEDS_INPUT, TaskState.BLOCKED, TaskState.FAILED)
# Of each state, this many are read: old failures do not make a look dearer.
MOST = 200


@dataclass(frozen=True, slots=True)
class Needy:
    """A task that needs a person."""

    task: Task
    seconds: float
    what: str
    then: str

    def as_json(self, web_url: str) -> dict[str, Any]:
        """For programs."""
        return {
            **about(self.task, web_url),
            "seconds": self.seconds,
            "question": self.task.question or None,
            "by_hand": self.task.by_hand,
            "what": self.what,
            "then": self.then,
        }


def needy_tasks(tx: Transaction, most: int = MOST) -> tuple[Needy, ...]:
    """What needs a person, longest first: by its state, or by what it waits for."""
    now = tx.now()
    stuck = {name: held[0] for name, held in hopeless_of(tx).items()}
    named = {task.id: task for state in PERSON for task in newest_in(tx, state, most)}
    for name in list(stuck)[:most]:
        task = find_task(tx, name)
        if task is not None:
            named.setdefault(name, task)
    found = [_told(task, stuck.get(task.id), now) for task in named.values()]
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.task.id)))


def _told(task: Task, stuck: Blocker | None, now: datetime) -> Needy:
    seconds = age(parse_stamp(task.state_since), now).total_seconds()
    if stuck is not None and task.state not in PERSON:
        return Needy(task, seconds, stuck.sentence, stuck.remedy)
    told = next_step(task)
    return Needy(task, seconds, told.what, told.then)
