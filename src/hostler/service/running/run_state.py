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
    """Return the task's session if this run's agent can continue it; empty for a new one.

    A session belongs to the agent that started it, and not to another program or account.
    """
    if not task.session or not _is_valid_session(task.session, run.agent_kind):
        return ""
    earlier = [one for one in runs if one.session == task.session and one.run != run.run]
    last = max(earlier, key=lambda one: one.fence, default=None)
    same = last is not None and (last.agent, last.agent_kind) == (run.agent, run.agent_kind)
    return task.session if same else ""


def _is_valid_session(session: str, agent_kind: str) -> bool:
    kind = KINDS.get(agent_kind)
    return kind is None or kind.program is None or kind.program.is_session_id(session)


# The clocks of a bus and of the database can differ by this much.
_MAX_CLOCK_SKEW = timedelta(minutes=1)


def has_posted(home: Path, run: Run) -> bool:
    """Return whether the agent of a run posted on the bus of its task or project."""
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
# A DONE file can also make a dependency in one of these states ready.
_DEPENDENCY_STATES = (TaskState.RUNNING, *sorted(STUCK_STATES))


class DoneFileWatcher:
    """Applies DONE files of manual tasks. One check at a time: a second one has nothing to do."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._checking = threading.Lock()

    def has_waiting_tasks(self) -> bool:
        """Return whether there is anything to check: a manual task is waiting."""
        with self._app.store.read() as tx:
            return any_by_hand(tx, WAITING_STATES)

    def check(self) -> None:
        """Apply all new DONE files. Costs one file lookup per task."""
        if not self._checking.acquire(blocking=False):
            return
        try:
            with self._app.store.read() as tx:
                watched = _tasks_to_watch(tx)
            for one in watched:
                verdict = _read_done_file(self._app.home, one.project, one.id)
                if verdict is not None:
                    self._apply_done_file(one.id, verdict)
        finally:
            self._checking.release()

    def _apply_done_file(self, name: str, verdict: RunVerdict) -> None:
        with self._app.store.read() as tx:
            decided = self._decide(tx, name, verdict)
        # A DONE file stays where it is after it was applied: do not take the write lock again.
        if decided is None:
            return
        with self._app.store.write(*_DONE_SCOPES) as tx:
            if (decided := self._decide(tx, name, verdict)) is not None:
                apply_transition(tx, *decided)

    def _decide(
        self, tx: Transaction, name: str, verdict: RunVerdict
    ) -> tuple[Task, TaskTransition] | None:
        """Return a task and what its DONE file changes about it; None if nothing."""
        task = find_task(tx, name)
        if task is None or not _is_done_file_valid(task, find_last_run(tx, name)):
            return None
        if task.state is not TaskState.RUNNING and open_runs(tx, task_id=name):
            return None  # Its last run must be stored first.
        context = DoneFileContext(has_checkout(self._app, task), len(active_children(tx, name)))
        step = decide_after_done_file(
            task, verdict, context, RunEndFacts(tx.now()), self._app.settings.tasks
        )
        return None if step.task == task else (task, step)


def _tasks_to_watch(tx: Transaction) -> list[HandTask]:
    """Return manual tasks that are waiting, and those in folders that they depend on."""
    waiting = by_hand(tx, WAITING_STATES)
    named = {name for task in waiting_dependents(tx, WAITING_STATES) for name in task.depends_on}
    others = by_hand_named(tx, named - {task.id for task in waiting}, _DEPENDENCY_STATES)
    return [*waiting, *(one for one in others if not one.on_repository)]


def _read_done_file(home: Path, project: str, task: str) -> RunVerdict | None:
    """Return the verdict of a task's DONE file; None if there is none."""
    found = read_done(home / "projects" / project / "tasks" / task / DONE_FILE)
    if found.wrong:
        return RunVerdict(Outcome.BAD_RESULT, DecidedBy.DONE, found.wrong)
    if found.marked:
        return RunVerdict(Outcome.SUCCESS, DecidedBy.DONE, "A DONE file marked it as done.")
    return None


def read_done_verdict(app: AppContext, task: Task, last: Run | None) -> RunVerdict | None:
    """Return the verdict of a task's DONE file, if it counts."""
    return (
        _read_done_file(app.home, task.project, task.id)
        if _is_done_file_valid(task, last)
        else None
    )


def _is_done_file_valid(task: Task, last: Run | None) -> bool:
    """Return whether a DONE file counts: for a manual task that has no pull request yet.

    Work on a repository that was finished before and came back is not done: its DONE file was used.
    """
    if not task.by_hand or task.turn:
        return False
    return task.repo_full_name is None or last is None or last.outcome != Outcome.SUCCESS


def has_checkout(app: AppContext, task: Task) -> bool:
    """Return whether a task has a checkout."""
    if task.repo_full_name is None:
        return False
    return (app.checkouts / task.project / task.id).exists()


def find_last_run(tx: Transaction, task: str, but: str = "") -> Run | None:
    """Return the newest run of a task that has a verdict, except `but`."""
    ended = (run for run in reversed(runs_of(tx, task)) if run.decided_by and run.run != but)
    return next(ended, None)
