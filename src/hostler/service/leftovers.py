"""The edge: processes and checkouts that outlived what they were for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.runs.run_folder import shim_of
from hostler.service.cleaning import GONE
from hostler.service.gc.folders import listed
from hostler.shim import sweep
from hostler.store import Store
from hostler.store.runs import Run, RunState, runs_marked
from hostler.store.tasks import Task, find_task


@dataclass(frozen=True, slots=True)
class Stray:
    """A run that is over, and how many of its processes live on."""

    run: Run
    processes: int


@dataclass(frozen=True, slots=True)
class Unowned:
    """Checkouts by who needs them: a task, a task that is over, or nobody that we know of."""

    used: int
    over: list[Task]
    strange: list[str]


def strays(store: Store) -> list[Stray]:
    """Runs of this home that are over, and whose processes live. Marks of others are no news."""
    carried = sweep.marks()
    if not carried:
        return []
    with store.read() as tx:
        known = [(run, mark) for mark in carried for run in runs_marked(tx, mark)]
    return [
        Stray(run, carried[mark])
        for run, mark in known
        if run.state is RunState.ENDED and (shim_of(run) or {}).get("mark") == mark
    ]


def unowned(home: Path, store: Store) -> Unowned:
    """Whose the checkouts of a home are. Costs as much as there are."""
    used, over, strange = 0, [], []
    for folder in (path for project in listed(home / "checkouts") for path in listed(project)):
        with store.read() as tx:
            task = find_task(tx, folder.name)
        if task is None or task.project != folder.parent.name:
            strange.append(f"{folder.parent.name}/{folder.name}")
        elif task.state in GONE:
            over.append(task)
        else:
            used += 1
    return Unowned(used, over, strange)
