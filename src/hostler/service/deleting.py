"""Deleting tasks that are over: rows in one transaction, then folders; work is never lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hostler.checkouts.cleaning import clean
from hostler.checkouts.mirror import open_mirror
from hostler.checkouts.place import Checkout, Place
from hostler.checkouts.removing import remove_folder
from hostler.errors import HostlerError
from hostler.flows.lineage import descendants
from hostler.service.portrait import task_folder
from hostler.store import Store, Transaction
from hostler.store.dependencies import waiting_dependents
from hostler.store.pull_requests import find_pull
from hostler.store.retention import remove_task
from hostler.store.runs import open_runs
from hostler.store.tasks import OVER, Task, TaskState, require_task

SCOPES = ("admission", "tasks")
UNFINISHED = tuple(state for state in TaskState if state not in OVER)


class NotDeleted(HostlerError):
    """A task that something else still needs."""

    def __init__(self, task: Task, why: str, remedy: str = "") -> None:
        what = f"The task {task.id} cannot be deleted: {why}."
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


@dataclass(slots=True)
class Deleted:
    """What is gone; `kept` are folders that stay, each with the reason."""

    tasks: list[Task] = field(default_factory=list)
    kept: dict[Path, str] = field(default_factory=dict)


def doomed(tx: Transaction, names: Iterable[str]) -> list[Task]:
    """These tasks and all that came from them, children first; refused if one is still needed."""
    found: dict[str, Task] = {}
    for name in names:
        task = require_task(tx, name)
        for one in (task, *descendants(tx, task.id)):
            found[one.id] = one
    for task in found.values():
        _require_unneeded(tx, task, frozenset(found))
    return list(found.values())[::-1]


def delete(home: Path, store: Store, names: Iterable[str]) -> Deleted:
    """Delete tasks, all or none; what cannot be removed from disk is told."""
    with store.write(*SCOPES) as tx:
        tasks = doomed(tx, names)
        for task in tasks:
            remove_task(tx, task.id)
    done = Deleted(tasks)
    for task in tasks:
        _remove(task_folder(home, task), done)
        _clean(home, task, done)
    return done


def _require_unneeded(tx: Transaction, task: Task, together: frozenset[str]) -> None:
    if not task.over:
        state = task.state.value.replace("_", " ")
        raise NotDeleted(task, f"it is {state}", f"Stop it first: hostler task stop {task.id}")
    if open_runs(tx, task_id=task.id):
        raise NotDeleted(task, "its last run has not ended", "Try again in a moment.")
    pull = find_pull(tx, task.repo, task.pr_number) if task.pr_number else None
    if pull is not None and not pull.final:
        raise NotDeleted(
            task, f"its pull request #{pull.pr_number} is open", "Merge or close that first."
        )
    for other in waiting_dependents(tx, UNFINISHED):
        if task.id in other.depends_on and other.id not in together:
            raise NotDeleted(task, f"{other.id} waits for it", "Stop or finish that one first.")


def _clean(home: Path, task: Task, done: Deleted) -> None:
    """Its checkout goes if nothing is lost with it. Asks nobody on the network."""
    if task.repo_full_name is None or not task.branch:
        return
    place = Place(home / "checkouts", task.project, task.id)
    if not place.path.exists():
        return
    try:
        mirror = open_mirror(home / "mirrors", task.repo)
        clean(Checkout(place, mirror, task.branch))
    except (HostlerError, OSError, ValueError) as error:
        # A service cleans up too, and may have been faster.
        if place.path.exists():
            done.kept[place.path] = _reason(error)


def _remove(folder: Path, done: Deleted) -> None:
    try:
        remove_folder(folder)
    except OSError as error:
        done.kept[folder] = _reason(error)


def _reason(error: Exception) -> str:
    if isinstance(error, HostlerError):
        return error.what
    return getattr(error, "strerror", None) or str(error)
