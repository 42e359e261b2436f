"""Tasks, runs and issues, as rows; what admission does with them, played by the test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hostler.clock import FakeClock, SystemClock
from hostler.model import RepoName
from hostler.planner.queue import TaskQueue, has_free_slot
from hostler.runs import NewRun, admit_run
from hostler.store import Patience, Store, Transaction
from hostler.store.admin.migrate import upgrade
from hostler.store.dependencies import note_issue
from hostler.store.engine.backend import find_place
from hostler.store.runs import OPEN, RunState, change_run, open_runs
from hostler.store.tasks import (
    Flow,
    Task,
    TaskState,
    add_task,
    change_task,
    next_order,
    require_task,
)

PATIENT = Patience(queue_seconds=60.0, begin_seconds=60.0)
REPO = RepoName("octo", "stable")
SCOPES = ("admission", "tasks")


def migrate(home: Path, url: str | None = None) -> None:
    upgrade(
        home,
        find_place(home, url),
        clock=SystemClock(),
        patience=PATIENT,
        progress=lambda done, total: None,
    )


def add(tx: Transaction, name: str, *depends_on: str, **more: Any) -> Task:
    """A new task at the end of the queue; of an issue, if one is given."""
    issue = more.pop("issue", None)
    base = Task(
        id=name,
        project="stable",
        repo_full_name=str(REPO) if issue else None,
        issue_number=issue,
        flow=Flow.BUGFIX if issue else Flow.TASK,
        title=name,
        author="ann",
        state=TaskState.QUEUED,
        state_since=tx.stamp(),
        order=next_order(tx),
        depends_on=depends_on,
    )
    add_task(tx, replace(base, **more))
    return require_task(tx, name)


def begin(tx: Transaction, task: Task) -> Task:
    """What admission does: the task is running, and has a run."""
    begun = replace(task, state=TaskState.RUNNING, attempt=task.attempt + 1)
    after = change_task(tx, task, begun)
    admit_run(tx, NewRun(task.id, task.project, kind="work", agent="helper", agent_kind="command"))
    return after


def end_run(tx: Transaction, task: str, outcome: str) -> None:
    """The task's open run is over."""
    for run in open_runs(tx, task_id=task):
        values = {"state": RunState.ENDED.value, "outcome": outcome, "ended_at": tx.stamp()}
        assert change_run(tx, run.run, fence=run.fence, states=OPEN, values=values)


def starting(queue: TaskQueue) -> list[Task]:
    """Who finds a place now, one after another, by the rule of admission's gate."""
    able = [task for task in queue.waiting if task.id in queue.positions]
    taken, found = set(queue.occupied), []
    for task in sorted(able, key=lambda task: queue.positions[task.id]):
        if task.id not in taken and has_free_slot(task, len(taken), queue.cap):
            taken.add(task.id)
            found.append(task)
    return found


class Yard:
    """A store and its clock."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock

    def add(self, name: str, *depends_on: str, **more: Any) -> Task:
        with self.store.write(*SCOPES) as tx:
            return add(tx, name, *depends_on, **more)

    def set(self, name: str, **fields: Any) -> Task:
        with self.store.write(*SCOPES) as tx:
            present = require_task(tx, name)
            return change_task(tx, present, replace(present, **fields))

    def run(self, name: str, outcome: str | None = None, **after: Any) -> Task:
        """One run of a task: ended with this outcome, or still open."""
        with self.store.write(*SCOPES) as tx:
            begin(tx, require_task(tx, name))
            if outcome is not None:
                end_run(tx, name, outcome)
        return self.set(name, **after)

    def see(self, number: int, state: str, repo: RepoName = REPO) -> None:
        with self.store.write("tasks") as tx:
            note_issue(tx, repo, number, state, "its title")
