"""Stopping tasks from outside the service: rows first, then the agents are told at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock
from hostler.flows import commands
from hostler.runs import LocalDispatcher
from hostler.runs.states import RunError
from hostler.store import Store, Transaction
from hostler.store.runs import live_runs
from hostler.store.tasks import Task, TaskState, require_task, tasks_in

SCOPES = ("admission", "outbox", "tasks")
# An agent is at work, or will be by itself.
MOVING = (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED)
# `commands.stop` or `commands.cancel`.
Halt = Callable[[Transaction, Task, str, str], list[Task]]


@dataclass(frozen=True, slots=True)
class Stopper:
    """Stops tasks of one home, for somebody and a reason."""

    home: Path
    store: Store
    clock: Clock
    grace_seconds: float
    by: str
    why: str = ""

    def stop(self, names: Iterable[str], halt: Halt = commands.stop) -> list[Task]:
        """Stop tasks and what came from them, all or none; those that were changed."""
        return self._halt(lambda tx: (require_task(tx, name) for name in names), halt)

    def stop_everything(self) -> list[Task]:
        """The same for all that runs, or would by itself."""
        return self._halt(lambda tx: tasks_in(tx, MOVING), commands.stop)

    def _halt(self, chosen: Callable[[Transaction], Iterable[Task]], halt: Halt) -> list[Task]:
        changed: dict[str, Task] = {}
        with self.store.write(*SCOPES) as tx:
            for task in chosen(tx):
                # What went with its parent a moment ago needs no second word.
                if task.id not in changed:
                    changed |= {one.id: one for one in halt(tx, task, self.by, self.why)}
        self._tell_agents(changed)
        return list(changed.values())

    def _tell_agents(self, tasks: Collection[str]) -> None:
        """Have their agents end: the shims hear it also where no service works."""
        with self.store.read() as tx:
            runs = [run for run in live_runs(tx) if run.task_id in tasks]
        if not runs:
            return
        dispatcher = LocalDispatcher(self.home, self.store, self.clock)
        try:
            for run in runs:
                with suppress(RunError):  # whoever supervises it tells it again
                    dispatcher.cancel(run.run, self.grace_seconds)
        finally:
            dispatcher.close()
