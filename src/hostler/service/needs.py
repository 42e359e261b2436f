"""What tasks wait for, noted and told when it changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hostler.planner import Blocker, News, blockers_of, in_words, news_of, note_blockers
from hostler.service.candidates import Gate, Held
from hostler.store import Store, Transaction
from hostler.store.tasks import Task, TaskState, find_task, tasks_in

SCOPES = ("admission", "tasks")


@dataclass(frozen=True, slots=True)
class Told:
    """A task, and what there is to say about what it waits for."""

    task: Task
    news: News
    text: str


def note_needs(store: Store) -> list[Told]:
    """Store what has changed about blockers of tasks that have not begun."""
    with store.read() as tx:
        concerned = [task for task in _waiting(tx) if task.depends_on or task.blockers]
        if not concerned:
            return []
        held = blockers_of(tx, concerned)
        changed = [t for t in concerned if news_of(t, held.get(t.id, ())) is not News.NONE]
    told = []
    for task in changed:
        with store.write(*SCOPES) as tx:
            present = find_task(tx, task.id)
            if present is None or present.state is not TaskState.QUEUED:
                continue
            after, news = note_blockers(tx, present, held.get(task.id, ()))
        if news is not News.NONE:
            told.append(Told(after, news, in_words(held.get(task.id, ()))))
    return told


def needs_of(tx: Transaction, tasks: Iterable[Task]) -> dict[str, Held]:
    """What each of these tasks waits for, as a gate that holds it."""
    return {name: as_held(held) for name, held in blockers_of(tx, tasks).items()}


def as_held(blockers: tuple[Blocker, ...]) -> Held:
    """Blockers as any other gate; what cannot open by itself is said first."""
    first = sorted(blockers, key=lambda one: not one.hopeless)
    remedy = next((one.remedy for one in first if one.remedy), "Wait.")
    return Held(Gate.DEPENDENCIES, in_words(first), remedy)


def _waiting(tx: Transaction) -> list[Task]:
    return [task for task in tasks_in(tx, (TaskState.QUEUED,)) if task.attempt == 0]
