"""Marks: DONE files of tasks by hand, found while no agent is there to tell of them.

Files are no events, so they are looked at: before an attempt, and now and then while tasks wait.
"""

from __future__ import annotations

import threading
from pathlib import Path

from hostler.agents.donefile import read_done
from hostler.agents.launch import DONE
from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.flows import Facts
from hostler.flows.byhand import AT_A_LOSS, WAITING, Around, when_marked
from hostler.flows.lineage import active_children
from hostler.flows.steps import Step
from hostler.flows.storing import store_step
from hostler.service.house import House
from hostler.store import Transaction
from hostler.store.dependencies import waiting_dependents
from hostler.store.runs import Run, open_runs, runs_of
from hostler.store.tasks import (
    HandTask,
    Task,
    TaskState,
    any_by_hand,
    by_hand,
    by_hand_named,
    find_task,
)

SCOPES = ("outbox", "tasks")
# What a dependency may be in, beside those that wait themselves, to become ready by its mark.
OF_OTHERS = (TaskState.RUNNING, *sorted(AT_A_LOSS))


class Marks:
    """Looks at the marks of a house. One look at a time: a second one has nothing to do."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._looking = threading.Lock()

    def wanted(self) -> bool:
        """Whether there is anything to look for: a task by hand waits."""
        with self._house.store.read() as tx:
            return any_by_hand(tx, WAITING)

    def look(self) -> None:
        """See to all that were marked: one look at one name for each."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            with self._house.store.read() as tx:
                watched = to_watch(tx)
            for one in watched:
                mark = read_mark(self._house.home, one.project, one.id)
                if mark is not None:
                    self._heed(one.id, mark)
        finally:
            self._looking.release()

    def _heed(self, name: str, mark: Verdict) -> None:
        with self._house.store.read() as tx:
            follows = self._follows(tx, name, mark)
        # What was heeded before stays marked: it should not take the write lock again.
        if follows is None:
            return
        with self._house.store.write(*SCOPES) as tx:
            if (follows := self._follows(tx, name, mark)) is not None:
                store_step(tx, *follows)

    def _follows(self, tx: Transaction, name: str, mark: Verdict) -> tuple[Task, Step] | None:
        """A task and what its mark changes about it; None: nothing."""
        task = find_task(tx, name)
        if task is None or not counts(task, last_run(tx, name)):
            return None
        if task.state is not TaskState.RUNNING and open_runs(tx, task_id=name):
            return None  # its last run says first how it ended
        around = Around(is_made(self._house, task), len(active_children(tx, name)))
        step = when_marked(task, mark, around, Facts(tx.now()), self._house.settings.tasks)
        return None if step.task == task else (task, step)


def to_watch(tx: Transaction) -> list[HandTask]:
    """Tasks by hand that wait, and those in folders that they depend on."""
    waiting = by_hand(tx, WAITING)
    named = {name for task in waiting_dependents(tx, WAITING) for name in task.depends_on}
    others = by_hand_named(tx, named - {task.id for task in waiting}, OF_OTHERS)
    return [*waiting, *(one for one in others if not one.on_repository)]


def read_mark(home: Path, project: str, task: str) -> Verdict | None:
    """What the mark of a task says: done, wrong, or nothing."""
    found = read_done(home / "projects" / project / "tasks" / task / DONE)
    if found.wrong:
        return Verdict(Outcome.BAD_RESULT, DecidedBy.DONE, found.wrong)
    if found.marked:
        return Verdict(Outcome.SUCCESS, DecidedBy.DONE, "It was marked as done.")
    return None


def mark_of(house: House, task: Task, last: Run | None) -> Verdict | None:
    """What the mark of a task says, if it counts."""
    return read_mark(house.home, task.project, task.id) if counts(task, last) else None


def counts(task: Task, last: Run | None) -> bool:
    """Whether the mark means anything: for a task by hand, without a pull request yet.

    Work in a repository that was done and came back is not done: its mark was taken already.
    """
    if not task.by_hand or task.turn:
        return False
    return task.repo_full_name is None or last is None or last.outcome != Outcome.SUCCESS


def is_made(house: House, task: Task) -> bool:
    """Whether a task has a checkout."""
    if task.repo_full_name is None:
        return False
    return (house.checkouts / task.project / task.id).exists()


def last_run(tx: Transaction, task: str, but: str = "") -> Run | None:
    """The newest run of a task that came to anything; `but` is not asked for."""
    ended = (run for run in reversed(runs_of(tx, task)) if run.decided_by and run.run != but)
    return next(ended, None)
