"""Sessions that runs continue, messages of their agents, and DONE files of manual tasks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from hostler.agents.adapters.registry import KINDS
from hostler.agents.assignment import DONE_FILE
from hostler.agents.outcomes import Outcome
from hostler.agents.result import read_done
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.bus.bus import Bus, open_project_bus, open_task_bus
from hostler.bus.errors import BusError
from hostler.bus.message import Message, SenderKind, id_from_time
from hostler.model import parse_timestamp
from hostler.service.context import AppContext
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
from hostler.workflows.commands import active_children
from hostler.workflows.effects import TaskTransition, apply_transition
from hostler.workflows.manual_tasks import (
    STUCK_STATES,
    WAITING_STATES,
    DoneFileContext,
    decide_after_done_file,
)
from hostler.workflows.outcomes import RunEndFacts


def session_to_resume(task: Task, run: Run, runs: Sequence[Run]) -> str:
    """The task's session, if it is one of this run's agent; empty: a new one.

    A conversation with one program means nothing to another, or to the same one of another name:
    its account may be a different one. A name that its program gives to no session is none.
    """
    if not task.session or not _is_valid_session(task.session, run.agent_kind):
        return ""
    its = [one for one in runs if one.session == task.session and one.run != run.run]
    last = max(its, key=lambda one: one.fence, default=None)
    same = last is not None and (last.agent, last.agent_kind) == (run.agent, run.agent_kind)
    return task.session if same else ""


def _is_valid_session(session: str, agent_kind: str) -> bool:
    kind = KINDS.get(agent_kind)
    return kind is None or kind.program is None or kind.program.is_session_id(session)


# By so much the clocks of a bus and of the database may differ.
_MAX_CLOCK_SKEW = timedelta(minutes=1)


def has_posted(home: Path, run: Run) -> bool:
    """Whether the agent of a run posted on the bus of its task, or of its project."""
    after = id_from_time(parse_timestamp(run.admitted_at) - _MAX_CLOCK_SKEW)
    buses = (open_task_bus(home, run.project, run.task_id), open_project_bus(home, run.project))
    return any(_has_message(bus, after, run.run) for bus in buses)


def _has_message(bus: Bus, after: str, run: str) -> bool:
    def own(message: Message) -> bool:
        return message.sender.kind is SenderKind.AGENT and message.sender.run == run

    try:
        return len(bus.since(after, own)) > 0
    except (BusError, OSError):
        return False


_DONE_SCOPES = ("outbox", "tasks")
# What a dependency may be in, beside those that wait themselves, to become ready by its mark.
_DEPENDENCY_STATES = (TaskState.RUNNING, *sorted(STUCK_STATES))


class DoneFileWatcher:
    """Looks at the marks of a house. One look at a time: a second one has nothing to do."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._looking = threading.Lock()

    def wanted(self) -> bool:
        """Whether there is anything to look for: a task by hand waits."""
        with self._app.store.read() as tx:
            return any_by_hand(tx, WAITING_STATES)

    def look(self) -> None:
        """See to all that were marked: one look at one name for each."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            with self._app.store.read() as tx:
                watched = _tasks_to_watch(tx)
            for one in watched:
                mark = _read_done_file(self._app.home, one.project, one.id)
                if mark is not None:
                    self._heed(one.id, mark)
        finally:
            self._looking.release()

    def _heed(self, name: str, mark: RunVerdict) -> None:
        with self._app.store.read() as tx:
            follows = self._follows(tx, name, mark)
        # What was heeded before stays marked: it should not take the write lock again.
        if follows is None:
            return
        with self._app.store.write(*_DONE_SCOPES) as tx:
            if (follows := self._follows(tx, name, mark)) is not None:
                apply_transition(tx, *follows)

    def _follows(
        self, tx: Transaction, name: str, mark: RunVerdict
    ) -> tuple[Task, TaskTransition] | None:
        """A task and what its mark changes about it; None: nothing."""
        task = find_task(tx, name)
        if task is None or not _is_done_file_valid(task, find_last_run(tx, name)):
            return None
        if task.state is not TaskState.RUNNING and open_runs(tx, task_id=name):
            return None  # its last run says first how it ended
        around = DoneFileContext(has_checkout(self._app, task), len(active_children(tx, name)))
        step = decide_after_done_file(
            task, mark, around, RunEndFacts(tx.now()), self._app.settings.tasks
        )
        return None if step.task == task else (task, step)


def _tasks_to_watch(tx: Transaction) -> list[HandTask]:
    """Tasks by hand that wait, and those in folders that they depend on."""
    waiting = by_hand(tx, WAITING_STATES)
    named = {name for task in waiting_dependents(tx, WAITING_STATES) for name in task.depends_on}
    others = by_hand_named(tx, named - {task.id for task in waiting}, _DEPENDENCY_STATES)
    return [*waiting, *(one for one in others if not one.on_repository)]


def _read_done_file(home: Path, project: str, task: str) -> RunVerdict | None:
    """What the mark of a task says: done, wrong, or nothing."""
    found = read_done(home / "projects" / project / "tasks" / task / DONE_FILE)
    if found.wrong:
        return RunVerdict(Outcome.BAD_RESULT, DecidedBy.DONE, found.wrong)
    if found.marked:
        return RunVerdict(Outcome.SUCCESS, DecidedBy.DONE, "It was marked as done.")
    return None


def read_done_verdict(app: AppContext, task: Task, last: Run | None) -> RunVerdict | None:
    """What the mark of a task says, if it counts."""
    return (
        _read_done_file(app.home, task.project, task.id)
        if _is_done_file_valid(task, last)
        else None
    )


def _is_done_file_valid(task: Task, last: Run | None) -> bool:
    """Whether the mark means anything: for a task by hand, without a pull request yet.

    Work in a repository that was done and came back is not done: its mark was taken already.
    """
    if not task.by_hand or task.turn:
        return False
    return task.repo_full_name is None or last is None or last.outcome != Outcome.SUCCESS


def has_checkout(app: AppContext, task: Task) -> bool:
    """Whether a task has a checkout."""
    if task.repo_full_name is None:
        return False
    return (app.checkouts / task.project / task.id).exists()


def find_last_run(tx: Transaction, task: str, but: str = "") -> Run | None:
    """The newest run of a task that came to anything; `but` is not asked for."""
    ended = (run for run in reversed(runs_of(tx, task)) if run.decided_by and run.run != but)
    return next(ended, None)
