"""What changed about tasks, in lines for people."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hostler.store import Store
from hostler.store.tasks import (
    OVER,
    Outline,
    Task,
    TaskState,
    outlines_in,
    outlines_of,
    tasks_named,
)
from hostler.store.transaction import Transaction

UNFINISHED = tuple(state for state in TaskState if state not in OVER)
_WORDS = {
    TaskState.RUNNING: "at work",
    TaskState.AWAITING_FEEDBACK: "awaits review",
    TaskState.NEEDS_INPUT: "asks",
}
# Reasons that say no more than the state.
_PLAIN = frozenset({TaskState.RUNNING, TaskState.AWAITING_FEEDBACK})


def state_words(task: Task) -> str:
    """The state of a task, as people say it."""
    return _WORDS.get(task.state, task.state.value.replace("_", " "))


def sentence(task: Task) -> str:
    """Where a task is, in one line."""
    name = task.id if task.by_hand else f"{task.repo_full_name}#{task.number}"
    pull = f", pull request #{task.pr_number}" if task.pr_number else ""
    why = task.question if task.state is TaskState.NEEDS_INPUT else task.reason
    told = " ".join(why.split())[:200] if task.state not in _PLAIN else ""
    return f"{name}  {task.flow.value.replace('_', ' ')}: {state_words(task)}{pull}" + (
        f". {told}" if told else ""
    )


class Follower:
    """Tells of every change of the unfinished tasks, or of those that are named."""

    def __init__(
        self, store: Store, tell: Callable[[str], None], only: Collection[str] | None = None
    ) -> None:
        self._store = store
        self._tell = tell
        self._only = only
        self._known: dict[str, Outline] = {}
        self._told: dict[str, str] = {}
        self._mark: int | None = None

    def look(self) -> None:
        """Tell what is new since the last look. Where nobody has committed, no row is read."""
        # Before reading: what is committed meanwhile leads to another look.
        mark = self._store.change_mark()
        if mark == self._mark:
            return
        with self._store.read() as tx:
            present = self._present(tx)
            changed = [name for name, told in present.items() if self._known.get(name) != told]
            found = tasks_named(tx, changed)
        for task in found:
            self._say(task)
        # What is over was told of, and does not come back by itself.
        over = {task.id for task in found if task.over} if self._only is None else set()
        self._known = {name: told for name, told in present.items() if name not in over}
        self._told = {name: self._told[name] for name in self._known}
        self._mark = mark

    def _say(self, task: Task) -> None:
        line = sentence(task)
        if self._told.get(task.id) != line:
            self._tell(line)
        self._told[task.id] = line

    def _present(self, tx: Transaction) -> dict[str, Outline]:
        """Those that are told of, as they are now; what ended since the last look too."""
        if self._only is not None:
            return outlines_of(tx, self._only)
        unfinished = outlines_in(tx, UNFINISHED)
        return unfinished | outlines_of(tx, self._known.keys() - unfinished.keys())
