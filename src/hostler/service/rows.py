"""Whether rows say anything new: a turn in which nothing was committed looks at none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hostler.clock import Clock
from hostler.store import Store
from hostler.store.tasks import TaskState, tasks_in

# What is counted of each repository.
COUNTED = {
    "queued": (TaskState.QUEUED,),
    "running": (TaskState.RUNNING,),
    "waiting": (TaskState.RETRYING, TaskState.PARKED),
}


class Rows:
    """News: a commit of anybody, a time that came, a repository that was reached first."""

    def __init__(self, store: Store, clock: Clock, ready: Callable[[], frozenset[str]]) -> None:
        self._store = store
        self._clock = clock
        self._ready = ready
        self._seen: tuple[int, frozenset[str]] | None = None
        self._due: float | None = None

    def look(self) -> bool:
        """Whether rows are to be looked at. Asked before looking: what comes meanwhile is news."""
        present = (self._store.change_mark(), self._ready())
        before, self._seen = self._seen, present
        return present != before or (self._due is not None and self._clock.monotonic() >= self._due)

    def due_in(self, seconds: float | None) -> None:
        """Look again by itself after this time; None: never."""
        self._due = None if seconds is None else self._clock.monotonic() + seconds

    def seconds_left(self) -> float | None:
        """Until it is due."""
        return None if self._due is None else max(self._due - self._clock.monotonic(), 0.0)

    def forget(self) -> None:
        """What was seen counts for nothing: the next look is news."""
        self._seen = None


class Counts:
    """Tasks of each project by what they do, counted again after a commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark: int | None = None
        self._found: Counter[tuple[str, TaskState]] = Counter()

    def of(self, project: str) -> dict[str, int]:
        """How many of a project there are."""
        mark = self._store.change_mark()
        if mark != self._mark:
            states = [state for group in COUNTED.values() for state in group]
            with self._store.read() as tx:
                found = tasks_in(tx, states)
            self._mark = mark
            self._found = Counter((task.project, task.state) for task in found)
        return {
            name: sum(self._found[project, state] for state in group)
            for name, group in COUNTED.items()
        }
