"""What people do with tasks, from whatever face: stop, cancel, resume, retry, answer, pause."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock
from hostler.flows import commands
from hostler.service.naming import task_meant, tasks_meant
from hostler.service.stopping import SCOPES, Halt, Stopper
from hostler.store import Store, Transaction
from hostler.store.operator import Pause, all_pauses
from hostler.store.operator import pause as pause_scope
from hostler.store.operator import unpause as unpause_scope
from hostler.store.tasks import Task

# `commands.resume` or `commands.retry`.
Change = Callable[[Transaction, Task, str, str], Task]


@dataclass(frozen=True, slots=True)
class Paused:
    """A pause in force, and whether it is new."""

    held: Pause
    changed: bool


@dataclass(frozen=True, slots=True)
class Director:
    """Carries out what somebody (`by`) wants of a home. Tasks are named as people name them."""

    home: Path
    store: Store
    clock: Clock
    grace_seconds: float
    by: str

    def stop(self, names: Iterable[str], why: str = "") -> list[Task]:
        """Stop tasks and what came from them, all or none; those that were changed."""
        return self._halt(names, why, commands.stop)

    def cancel(self, names: Iterable[str], why: str = "") -> list[Task]:
        """The same for good."""
        return self._halt(names, why, commands.cancel)

    def resume(self, names: Iterable[str], why: str = "") -> list[Task]:
        """Let tasks go on where they were."""
        return self._queue(names, why, commands.resume)

    def retry(self, names: Iterable[str], why: str = "") -> list[Task]:
        """Begin tasks anew."""
        return self._queue(names, why, commands.retry)

    def answer(self, name: str, text: str) -> Task:
        """Answer the question of a task by hand."""
        with self.store.write(*SCOPES) as tx:
            return commands.answer(tx, task_meant(tx, name), self.by, text.replace("\0", " "))

    def pause(self, scope: str, why: str = "") -> Paused:
        """Start nothing new in a scope; agents at work go on."""
        with self.store.write() as tx:
            changed = pause_scope(tx, scope, self.by, one_line(why))
            return Paused(all_pauses(tx)[scope], changed)

    def unpause(self, scope: str) -> tuple[bool, list[str]]:
        """Let a scope go on: whether it was paused, and which pauses are left."""
        with self.store.write() as tx:
            return unpause_scope(tx, scope), sorted(all_pauses(tx))

    def _halt(self, names: Iterable[str], why: str, halt: Halt) -> list[Task]:
        stopper = Stopper(
            self.home, self.store, self.clock, self.grace_seconds, self.by, one_line(why)
        )
        with self.store.read() as tx:
            found = [task.id for task in tasks_meant(tx, names)]
        return stopper.stop(found, halt)

    def _queue(self, names: Iterable[str], why: str, change: Change) -> list[Task]:
        with self.store.write(*SCOPES) as tx:
            return [change(tx, task, self.by, one_line(why)) for task in tasks_meant(tx, names)]


def one_line(text: str) -> str:
    """A reason as it is stored."""
    return " ".join(text.split())
