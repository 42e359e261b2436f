"""Run one issue in the foreground, and detect waits for tasks that no process executes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from hostler.config.settings import Settings
from hostler.errors import HostlerError, NotFound
from hostler.intake.repo_policy import build_repo_policy
from hostler.model import RepoName
from hostler.planner.dependencies import Blocker, DependencyState
from hostler.planner.queue import read_blockers
from hostler.service.context import AppContext
from hostler.service.scheduling.dispatch import is_waiter_dead
from hostler.service.scheduling.task_waits import find_settled, read_waits
from hostler.store import Store, Transaction
from hostler.store.outbox import OutboxRow, open_writes
from hostler.store.runs import Run, open_runs
from hostler.store.tasks import WAITING, Flow, Task, TaskState, find_task, require_task
from hostler.workflows.commands import descendants
from hostler.workflows.ingest import start_issue_now
from hostler.workflows.manual_tasks import is_waiting_for_children

_ISSUE_PATTERN = re.compile(r"(?P<repo>[^/\s#]+/[^/\s#]+)#(?P<number>[1-9]\d{0,9})")
# An agent is running, or will start very soon.
_RUNNABLE_STATES = frozenset({TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING})
_EXIT_CODES = {
    TaskState.AWAITING_FEEDBACK: 0,
    TaskState.DONE: 0,
    TaskState.NEEDS_INPUT: 3,
    TaskState.BLOCKED: 3,
    TaskState.PARKED: 3,
    # Settled only if its dependencies can never be ready, or no process executes them.
    TaskState.QUEUED: 3,
    # Left running: its agent waits for a task that no process executes, or Ctrl-C was pressed.
    TaskState.RUNNING: 3,
    TaskState.RETRYING: 3,
}


@dataclass(frozen=True, slots=True)
class WatchedIssue:
    """An issue of a watched repository."""

    project: str
    repo: RepoName
    number: int


def parse_issue_reference(settings: Settings, text: str) -> WatchedIssue:
    """Parse `owner/repo#12`. Raises if the repository is not watched."""
    found = _ISSUE_PATTERN.fullmatch(text.strip())
    if found is None:
        raise HostlerError(
            f"{text!r} names no issue.", remedy="Write it as owner/repo#12, in quotes."
        )
    wanted = found["repo"].lower()
    for project, repo in settings.repo.items():
        if f"{repo.owner}/{repo.name}".lower() == wanted:
            return WatchedIssue(project, RepoName(repo.owner, repo.name), int(found["number"]))
    raise HostlerError(
        f"{found['repo']} is not watched.",
        safe="Nothing was started.",
        remedy=f"Add it first: hostler repo add {found['repo']}",
    )


def start_issue_task(app: AppContext, wanted: WatchedIssue, flow: Flow | None) -> Task:
    """Start or resume the task of an issue. Reads the issue from GitHub."""
    repo, forge = app.settings.repo[wanted.project], app.hub.repo(wanted.repo)
    try:
        issue = forge.issue(wanted.number)
    except NotFound as error:
        raise HostlerError(
            f"{wanted.repo}#{wanted.number} does not exist, or our account cannot see it.",
            safe="Nothing was started.",
            remedy="Look at the number, and at what the token may read.",
        ) from error
    return start_issue_now(
        app.store, build_repo_policy(wanted.project, repo), issue, flow, at=forge.now()
    )


def find_settled_task(store: Store, task: str) -> Task | None:
    """Return the task if it has no agent and no pending write; else None."""
    with store.read() as tx:
        found = require_task(tx, task)
        stuck = any(one.stuck for one in find_settled(tx, [task]))
        moving = (found.state in _RUNNABLE_STATES and not stuck) or is_waiting_for_children(found)
        writes = [row for row in open_writes(tx) if _is_write_of(found, row)]
        busy = moving or open_runs(tx, task_id=task) or writes
    return None if busy else found


def exit_code_for(task: Task) -> int:
    """Return the exit code for a task."""
    return _EXIT_CODES.get(task.state, 1)


def _is_write_of(task: Task, row: OutboxRow) -> bool:
    threads = {task.issue_number, task.pr_number}
    return row.repo_full_name == task.repo_full_name and row.scope_number in threads


@dataclass(frozen=True, slots=True)
class UnservedWait:
    """A wait for a task outside of the family that no process executes."""

    task: str
    name: str
    sentence: str

    def __str__(self) -> str:
        told = f"{self.task} waits for {self.name}, and nobody works on that: {self.sentence}"
        return f"{told} A service would (`hostler service`)."


@dataclass(frozen=True, slots=True)
class TaskFamily:
    """A task and its unfinished descendants.

    By task: `held` are its blockers, `waits` the tasks that its agent waits for with a released
    slot. `working` are tasks with a running agent or worker.
    """

    tasks: tuple[Task, ...]
    held: Mapping[str, tuple[Blocker, ...]]
    waits: Mapping[str, tuple[Task, ...]]
    working: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(task.id for task in self.tasks)


def find_unserved_waits(family: TaskFamily) -> list[UnservedWait]:
    """Return waits for tasks that no process executes. Pure."""
    held = [
        UnservedWait(task, one.name, one.sentence)
        for task, found in family.held.items()
        for one in found
        if one.name not in family.names and one.state is not DependencyState.RUNNING
    ]
    waits = [
        UnservedWait(task, one.id, f"{one.id} is {one.state}.")
        for task, found in family.waits.items()
        for one in found
        if one.id not in family.names | family.working
    ]
    return held + waits


def is_deadlocked(family: TaskFamily) -> bool:
    """Return True if no task of the family can progress by itself. Pure."""
    waiting = [task for task in family.tasks if task.state in WAITING]
    free = any(task.id not in family.held for task in waiting)
    return not free and not family.working and bool(find_unserved_waits(family))


def read_family(store: Store, root: str) -> TaskFamily:
    """Read a task and its descendants."""
    with store.read() as tx:
        return _load_family(tx, root)


def _load_family(tx: Transaction, root: str) -> TaskFamily:
    """Read a task and its descendants in a transaction."""
    tasks = [task for task in (require_task(tx, root), *descendants(tx, root)) if not task.over]
    runs = open_runs(tx)
    idle = {run.task_id: for_whom for run in runs if (for_whom := _awaited_tasks(tx, run))}
    with_runs = {run.task_id for run in runs}
    alone = {t.id for t in tasks if t.state is TaskState.RUNNING and t.id not in with_runs}
    names = {task.id for task in tasks}
    return TaskFamily(
        tasks=tuple(tasks),
        held=read_blockers(tx, [task for task in tasks if task.state in WAITING]),
        waits={name: for_whom for name, for_whom in idle.items() if name in names},
        working=frozenset((with_runs - idle.keys()) | alone),
    )


def _awaited_tasks(tx: Transaction, run: Run) -> tuple[Task, ...]:
    """Return the unfinished tasks that the agent of a run waits for; none if it runs."""
    if run.slot_released_at is None or run.slot_requested_at is not None or is_waiter_dead(run):
        return ()
    found = [find_task(tx, name) for name in read_waits([run]).get(run.task_id, ())]
    known = {task.id: task for task in found if task is not None}
    for one in find_settled(tx, known):
        del known[one.task.id]
    return tuple(known.values())


class UnservedWaitMonitor:
    """Reports each unserved wait of a family once, and detects a deadlock."""

    def __init__(self, see: Callable[[], TaskFamily], tell: Callable[[str], None]) -> None:
        self._see = see
        self._tell = tell
        self._told: Collection[UnservedWait] = frozenset()

    def check(self) -> bool:
        """Report new unserved waits. Return True on a deadlock."""
        family = self._see()
        found = find_unserved_waits(family)
        for one in found:
            if one not in self._told:
                self._tell(str(one))
        self._told = frozenset(found)
        return is_deadlocked(family)
