"""What changed about tasks, in lines for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from hostler.store import Store
from hostler.store.tasks import OVER, Task, TaskState, find_task, tasks_in

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


def differences(before: Mapping[str, Task], after: Mapping[str, Task]) -> list[str]:
    """A line for each task whose line is another than before, in their order."""
    known = {name: sentence(task) for name, task in before.items()}
    changed = [task for name, task in after.items() if known.get(name) != sentence(task)]
    return [sentence(task) for task in sorted(changed, key=lambda task: (task.order, task.id))]


class Follower:
    """Tells of every change of the unfinished tasks, or of those that are named."""

    def __init__(
        self, store: Store, tell: Callable[[str], None], only: Collection[str] | None = None
    ) -> None:
        self._store = store
        self._tell = tell
        self._only = only
        self._known: dict[str, Task] = {}
        self._mark: int | None = None

    def look(self) -> None:
        """Tell what is new since the last look. Where nobody has committed, no row is read."""
        # Before reading: what is committed meanwhile leads to another look.
        mark = self._store.change_mark()
        if mark == self._mark:
            return
        found = self._found()
        for line in differences(self._known, found):
            self._tell(line)
        # What is over was told of, and does not come back by itself.
        kept = self._only is not None
        self._known = {name: task for name, task in found.items() if kept or not task.over}
        self._mark = mark

    def _found(self) -> dict[str, Task]:
        """Those that are told of, as they are now; what ended since the last look too."""
        with self._store.read() as tx:
            unfinished = tasks_in(tx, UNFINISHED) if self._only is None else []
            found = {task.id: task for task in unfinished}
            others = [*self._known, *(self._only or ())]
            named = [find_task(tx, name) for name in others if name not in found]
        return found | {task.id: task for task in named if task is not None}
