"""Checkouts of tasks that are over are removed, if nothing is lost with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from hostler.checkouts.cleaning import keep_and_clean
from hostler.errors import HostlerError
from hostler.service.desks import Desks
from hostler.service.house import House
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, find_task

# A failed task waits for the operator, who may start it again in its checkout.
GONE = frozenset({TaskState.DONE, TaskState.STOPPED})


def leftovers(house: House) -> list[Task]:
    """Tasks that are over and still have a checkout. Costs as much as there are checkouts."""
    return [task for task in _with_checkout(house) if task.state in GONE]


def clean_up(
    house: House, desks: Desks, task: Task, told: Callable[[Task, HostlerError | None], None]
) -> None:
    """Remove a task's checkout; what cannot be removed stays, and its reason is told."""
    with house.store.read() as tx:
        present = find_task(tx, task.id)
        if present is None or present.state not in GONE or open_runs(tx, task_id=task.id):
            return
    if not task.branch:
        return  # it never began
    try:
        desk = desks.of(task.project)
        checkout = desk.checkout(task)
        if not checkout.path.exists():
            return
        keep_and_clean(checkout, desk.identity)
    except FileNotFoundError:
        return  # somebody deletes the task, and was faster
    except HostlerError as error:
        told(task, error)
    else:
        told(task, None)


def _with_checkout(house: House) -> Iterator[Task]:
    for folder in _folders(house.checkouts):
        with house.store.read() as tx:
            task = find_task(tx, folder.name)
        if task is not None and task.project == folder.parent.name:
            yield task


def _folders(checkouts: Path) -> list[Path]:
    try:
        return sorted(path for path in checkouts.glob("*/*") if not path.name.startswith("."))
    except OSError:
        return []
