"""Short descriptions of tasks: links, tree order, next step, and lines about changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hostler.service.scheduling.task_waits import tasks_awaited_by
from hostler.store import Store
from hostler.store.runs import LIVE, Run
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
from hostler.task_states import TASK_STATES, next_step, state_text
from hostler.workflows.commands import CANCELLED_PREFIX


def build_github_url(web_url: str, repo: str | None, kind: str, number: int | None) -> str:
    """Return the address of an issue (`issues`) or pull request (`pull`), or an empty string."""
    return f"{web_url.rstrip('/')}/{repo}/{kind}/{number}" if repo and number else ""


def task_json(task: Task, web_url: str) -> dict[str, Any]:
    """Return a task as JSON, with the same fields wherever a task is named."""
    return {
        "task": task.id,
        "project": task.project,
        "repo": task.repo_full_name,
        "issue": task.issue_number,
        "issue_url": build_github_url(web_url, task.repo_full_name, "issues", task.issue_number)
        or None,
        "pull": task.pr_number,
        "pull_url": build_github_url(web_url, task.repo_full_name, "pull", task.pr_number) or None,
        "title": task.title,
        "flow": task.flow.value,
        "state": task.state.value,
    }


def order_as_tree(tasks: Iterable[Task]) -> list[tuple[int, Task]]:
    """Return every task once with its depth, each before its children.

    A task whose parent is missing, or that is part of a cycle, is a root.
    """
    found = {task.id: task for task in sorted(tasks, key=lambda task: (task.order, task.id))}
    below: dict[str, list[Task]] = {}
    for task in found.values():
        below.setdefault(task.parent_task or "", []).append(task)
    roots = [task for task in found.values() if task.parent_task not in found]
    seen: dict[str, tuple[int, Task]] = {}
    for task in (*roots, *found.values()):
        for depth, one in _walk_tree(task, below, frozenset(seen)):
            seen.setdefault(one.id, (depth, one))
    return list(seen.values())


def _walk_tree(
    root: Task, below: dict[str, list[Task]], seen: frozenset[str]
) -> Iterator[tuple[int, Task]]:
    waiting, known = [(0, root)], set(seen)
    while waiting:
        depth, task = waiting.pop()
        if task.id in known:
            continue
        known.add(task.id)
        yield depth, task
        waiting += [(depth + 1, child) for child in reversed(below.get(task.id, []))]


@dataclass(frozen=True, slots=True)
class NextStep:
    """What a task is doing, and what a user can do or what follows by itself."""

    what: str
    then: str = ""


def describe_next_step(task: Task, open_runs: Sequence[Run] = ()) -> NextStep:
    """Describe what a task is doing and what comes next. `why` knows more about waiting tasks."""
    if task.over and open_runs:
        return NextStep(_state_and_reason(task), "Its agent is being stopped.")
    match task.state:
        case TaskState.RUNNING:
            return _describe_running(task, open_runs)
        case TaskState.AWAITING_FEEDBACK:
            pull = f"{task.repo_full_name}#{task.pr_number}" if task.pr_number else "The change"
            return NextStep(f"{pull} is in review.", next_step(task))
        case TaskState.NEEDS_INPUT:
            thread = f"{task.repo_full_name}#{task.pr_number or task.number}"
            then = next_step(task) if task.by_hand else f"Answer with a comment on {thread}."
            return NextStep(f"It asks: {' '.join(task.question.split())}", then)
        case TaskState.STOPPED if task.reason.startswith(CANCELLED_PREFIX):
            return NextStep(_state_and_reason(task), f"Start over: hostler task retry {task.id}")
        case _:
            return NextStep(_state_and_reason(task), next_step(task))


def _describe_running(task: Task, open_runs: Sequence[Run]) -> NextStep:
    run = next(iter(open_runs), None)
    if run is None or run.state not in LIVE:
        return NextStep("Its agent is done; its work is being checked and delivered.", "Wait.")
    if run.slot_released_at is not None and run.slot_requested_at is not None:
        return NextStep("Its agent is done waiting, and waits for a free slot.", "Wait.")
    if run.slot_released_at is not None:
        others = ", ".join(tasks_awaited_by(run)) or "other tasks"
        return NextStep(
            f"Its agent waits for {others}, and has released its slot.", next_step(task)
        )
    return NextStep(f"An agent is running: {run.agent}, attempt {task.attempt}.", next_step(task))


def _state_and_reason(task: Task) -> str:
    reason = " ".join(task.reason.split())
    return f"{TASK_STATES[task.state].label}. {reason}".strip()


UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)
# States whose reason adds nothing to the label.
_STATES_WITHOUT_REASON = frozenset({TaskState.RUNNING, TaskState.AWAITING_FEEDBACK})


def describe_task(task: Task) -> str:
    """Describe a task in one line."""
    name = task.id if task.by_hand else f"{task.repo_full_name}#{task.number}"
    pull = f", pull request #{task.pr_number}" if task.pr_number else ""
    why = task.question if task.state is TaskState.NEEDS_INPUT else task.reason
    reason = " ".join(why.split())[:200] if task.state not in _STATES_WITHOUT_REASON else ""
    return f"{name}  {task.flow.value.replace('_', ' ')}: {state_text(task)}{pull}" + (
        f". {reason}" if reason else ""
    )


class TaskFollower:
    """Reports every change of unfinished tasks, or of the tasks in `only`."""

    def __init__(
        self, store: Store, tell: Callable[[str], None], only: Collection[str] | None = None
    ) -> None:
        self._store = store
        self._tell = tell
        self._only = only
        self._known: dict[str, Outline] = {}
        self._told: dict[str, str] = {}
        self._mark: int | None = None

    def report_changes(self) -> None:
        """Report changes since the last call. Without a commit, no row is read."""
        # Read the mark first: a commit during the read is seen by the next call.
        mark = self._store.change_mark()
        if mark == self._mark:
            return
        with self._store.read() as tx:
            present = self._present(tx)
            changed = [name for name, told in present.items() if self._known.get(name) != told]
            found = tasks_named(tx, changed)
        for task in found:
            self._say(task)
        # A task that is over was reported and does not change by itself.
        over = {task.id for task in found if task.over} if self._only is None else set()
        self._known = {name: told for name, told in present.items() if name not in over}
        self._told = {name: self._told[name] for name in self._known}
        self._mark = mark

    def _say(self, task: Task) -> None:
        line = describe_task(task)
        if self._told.get(task.id) != line:
            self._tell(line)
        self._told[task.id] = line

    def _present(self, tx: Transaction) -> dict[str, Outline]:
        """Return the reported tasks as they are now, with those that ended since the last call."""
        if self._only is not None:
            return outlines_of(tx, self._only)
        unfinished = outlines_in(tx, UNFINISHED_STATES)
        return unfinished | outlines_of(tx, self._known.keys() - unfinished.keys())
