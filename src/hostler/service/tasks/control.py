"""Stop, cancel, resume, retry, answer, pause and delete tasks.

The protocols at the end have two implementations each: one on the database, one over the API of a
running service (`web/client`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from getpass import getuser
from pathlib import Path
from typing import Any, Protocol

from hostler.checkouts.agent_folder import remove_folder
from hostler.checkouts.checkout import Checkout, CheckoutLocation
from hostler.checkouts.cleanup import remove_checkout
from hostler.checkouts.mirror import open_mirror
from hostler.clock import Clock
from hostler.errors import HostlerError
from hostler.governor.gates import ParkedPool
from hostler.runs import LocalDispatcher
from hostler.runs.states import RunError
from hostler.service.running.bus_messages import BusMessageDraft
from hostler.service.tasks.details import resolve_task, resolve_tasks, task_folder
from hostler.service.tasks.submission import SubmissionReceipt, TaskRequest
from hostler.store import Store, Transaction
from hostler.store.dependencies import waiting_dependents
from hostler.store.operator import Pause, all_pauses
from hostler.store.operator import pause as pause_scope
from hostler.store.operator import unpause as unpause_scope
from hostler.store.pull_requests import find_pull
from hostler.store.retention import remove_task
from hostler.store.runs import live_runs, open_runs
from hostler.store.tasks import OVER, Task, TaskState, require_task, tasks_in
from hostler.task_states import state_text
from hostler.workflows import commands
from hostler.workflows.commands import descendants


def current_user() -> str:
    """Return the name of the user who runs this process."""
    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name
        return f"user {os.getuid()}"


CONTROL_SCOPES = ("admission", "outbox", "tasks")
# An agent is running, or will start by itself.
ACTIVE_STATES = (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED)
# `commands.stop` or `commands.cancel`.
StopCommand = Callable[[Transaction, Task, str, str], list[Task]]


@dataclass(frozen=True, slots=True)
class TaskStopper:
    """Stops tasks of one home on behalf of a user."""

    home: Path
    store: Store
    clock: Clock
    grace_seconds: float
    by: str
    why: str = ""

    def stop(self, names: Iterable[str], halt: StopCommand = commands.stop_task) -> list[Task]:
        """Stop tasks and their descendants, all or none; return the changed tasks."""
        return self._halt(lambda tx: (require_task(tx, name) for name in names), halt)

    def stop_everything(self) -> list[Task]:
        """Stop every active task."""
        return self._halt(lambda tx: tasks_in(tx, ACTIVE_STATES), commands.stop_task)

    def _halt(
        self, chosen: Callable[[Transaction], Iterable[Task]], halt: StopCommand
    ) -> list[Task]:
        changed: dict[str, Task] = {}
        with self.store.write(*CONTROL_SCOPES) as tx:
            for task in chosen(tx):
                # It was stopped together with its parent.
                if task.id not in changed:
                    changed |= {one.id: one for one in halt(tx, task, self.by, self.why)}
        self._tell_agents(changed)
        return list(changed.values())

    def _tell_agents(self, tasks: Collection[str]) -> None:
        """Stop the agents of tasks. This works without a running service."""
        with self.store.read() as tx:
            runs = [run for run in live_runs(tx) if run.task_id in tasks]
        if not runs:
            return
        dispatcher = LocalDispatcher(self.home, self.store, self.clock)
        try:
            for run in runs:
                with suppress(RunError):  # its supervisor sends the request again
                    dispatcher.cancel(run.run, self.grace_seconds)
        finally:
            dispatcher.close()


# `commands.resume` or `commands.retry`.
QueueCommand = Callable[[Transaction, Task, str, str], Task]


@dataclass(frozen=True, slots=True)
class PauseResult:
    """An effective pause, and whether it is new."""

    held: Pause
    changed: bool


@dataclass(frozen=True, slots=True)
class TaskController:
    """Executes task commands of a user (`by`). Tasks are named as users name them."""

    home: Path
    store: Store
    clock: Clock
    grace_seconds: float
    by: str

    def stop(self, names: Iterable[str], why: str = "") -> list[Task]:
        """Stop tasks and their descendants, all or none; return the changed tasks."""
        return self._halt(names, why, commands.stop_task)

    def cancel(self, names: Iterable[str], why: str = "") -> list[Task]:
        """Cancel tasks and their descendants, all or none; return the changed tasks."""
        return self._halt(names, why, commands.cancel_task)

    def resume(self, names: Iterable[str], why: str = "") -> list[Task]:
        """Continue tasks where they were."""
        return self._queue(names, why, commands.resume_task)

    def retry(self, names: Iterable[str], why: str = "") -> list[Task]:
        """Start tasks over."""
        return self._queue(names, why, commands.retry_task)

    def answer(self, name: str, text: str) -> Task:
        """Answer the question of a manual task."""
        with self.store.write(*CONTROL_SCOPES) as tx:
            return commands.answer_question(
                tx, resolve_task(tx, name), self.by, text.replace("\0", " ")
            )

    def pause(self, scope: str, why: str = "") -> PauseResult:
        """Pause a scope; running agents continue."""
        with self.store.write() as tx:
            changed = pause_scope(tx, scope, self.by, to_one_line(why))
            return PauseResult(all_pauses(tx)[scope], changed)

    def unpause(self, scope: str) -> tuple[bool, list[str]]:
        """End a pause; return whether there was one, and the scopes that are still paused."""
        with self.store.write() as tx:
            return unpause_scope(tx, scope), sorted(all_pauses(tx))

    def _halt(self, names: Iterable[str], why: str, halt: StopCommand) -> list[Task]:
        stopper = TaskStopper(
            self.home, self.store, self.clock, self.grace_seconds, self.by, to_one_line(why)
        )
        with self.store.read() as tx:
            found = [task.id for task in resolve_tasks(tx, names)]
        return stopper.stop(found, halt)

    def _queue(self, names: Iterable[str], why: str, change: QueueCommand) -> list[Task]:
        with self.store.write(*CONTROL_SCOPES) as tx:
            return [
                change(tx, task, self.by, to_one_line(why)) for task in resolve_tasks(tx, names)
            ]


def to_one_line(text: str) -> str:
    """Return text on one line, as reasons are stored."""
    return " ".join(text.split())


DELETE_SCOPES = ("admission", "tasks")
_UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)


class NotDeleted(HostlerError):
    """A task that cannot be deleted because something needs it."""

    def __init__(self, task: Task, why: str, remedy: str = "") -> None:
        what = f"The task {task.id} cannot be deleted: {why}."
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


@dataclass(slots=True)
class DeletedTasks:
    """Deleted tasks; `kept` are folders that remain, each with the reason."""

    tasks: list[Task] = field(default_factory=list)
    kept: dict[Path, str] = field(default_factory=dict)


def select_for_deletion(tx: Transaction, names: Iterable[str]) -> list[Task]:
    """Return tasks and their descendants, children first. Raises if one is still needed."""
    found: dict[str, Task] = {}
    for name in names:
        task = require_task(tx, name)
        for one in (task, *descendants(tx, task.id)):
            found[one.id] = one
    for task in found.values():
        _require_unneeded(tx, task, frozenset(found))
    return list(found.values())[::-1]


def delete_tasks(home: Path, store: Store, names: Iterable[str]) -> DeletedTasks:
    """Delete tasks, all or none; report folders that cannot be removed."""
    with store.write(*DELETE_SCOPES) as tx:
        tasks = select_for_deletion(tx, names)
        for task in tasks:
            remove_task(tx, task.id)
    done = DeletedTasks(tasks)
    for task in tasks:
        _remove_task_folder(task_folder(home, task), done)
        _clean_checkout(home, task, done)
    return done


def _require_unneeded(tx: Transaction, task: Task, together: frozenset[str]) -> None:
    if not task.over:
        raise NotDeleted(
            task, f"it is {state_text(task)}", f"Stop it first: hostler task stop {task.id}"
        )
    if open_runs(tx, task_id=task.id):
        raise NotDeleted(task, "its last run has not ended", "Try again in a moment.")
    pull = find_pull(tx, task.repo, task.pr_number) if task.pr_number else None
    if pull is not None and not pull.final:
        raise NotDeleted(
            task, f"its pull request #{pull.pr_number} is open", "Merge or close that first."
        )
    for other in waiting_dependents(tx, _UNFINISHED_STATES):
        if task.id in other.depends_on and other.id not in together:
            raise NotDeleted(task, f"{other.id} waits for it", "Stop or finish that one first.")


def _clean_checkout(home: Path, task: Task, done: DeletedTasks) -> None:
    """Remove the checkout of a task if no work is lost. Uses no network."""
    if task.repo_full_name is None or not task.branch:
        return
    place = CheckoutLocation(home / "checkouts", task.project, task.id)
    if not place.path.exists():
        return
    try:
        mirror = open_mirror(home / "mirrors", task.repo)
        remove_checkout(Checkout(place, mirror, task.branch))
    except (HostlerError, OSError, ValueError) as error:
        # The service may have removed it at the same time.
        if place.path.exists():
            done.kept[place.path] = _error_reason(error)


def _remove_task_folder(folder: Path, done: DeletedTasks) -> None:
    try:
        remove_folder(folder)
    except OSError as error:
        done.kept[folder] = _error_reason(error)


def _error_reason(error: Exception) -> str:
    if isinstance(error, HostlerError):
        return error.what
    return getattr(error, "strerror", None) or str(error)


class ChangedTask(Protocol):
    """A task after a command."""

    @property
    def id(self) -> str: ...
    @property
    def project(self) -> str: ...
    @property
    def state(self) -> TaskState: ...
    @property
    def reason(self) -> str: ...


class TaskControl(Protocol):
    """Executes task commands, for several tasks all or none."""

    def stop(self, names: Iterable[str], why: str = "") -> Sequence[ChangedTask]: ...
    def cancel(self, names: Iterable[str], why: str = "") -> Sequence[ChangedTask]: ...
    def resume(self, names: Iterable[str], why: str = "") -> Sequence[ChangedTask]: ...
    def retry(self, names: Iterable[str], why: str = "") -> Sequence[ChangedTask]: ...
    def answer(self, name: str, text: str) -> ChangedTask: ...


class PauseControl(Protocol):
    """Pauses everything or one project."""

    def pause(self, scope: str, why: str = "") -> PauseResult: ...
    def unpause(self, scope: str) -> tuple[bool, list[str]]: ...


class TaskQueue(Protocol):
    """Accepts manual tasks."""

    def submit(self, wish: TaskRequest, depends_on: Sequence[str]) -> SubmissionReceipt: ...


class BusControl(Protocol):
    """Posts messages of users."""

    def post(self, draft: BusMessageDraft) -> Mapping[str, Any]: ...


class PoolControl(Protocol):
    """Changes pools for an operator. `term`: a duration or end; None: until resumed."""

    def set(self, pool: str, caps: Mapping[str, Any]) -> None: ...
    def reset(self, pool: str) -> bool: ...
    def park(self, pool: str, term: datetime | timedelta | None, why: str) -> ParkedPool | None: ...
    def resume(self, pool: str) -> bool: ...
