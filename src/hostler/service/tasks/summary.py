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
from hostler.workflows.commands import CANCELLED_PREFIX


def build_github_url(web_url: str, repo: str | None, kind: str, number: int | None) -> str:
    """The address of an issue (`issues`) or pull request (`pull`); empty where there is none."""
    return f"{web_url.rstrip('/')}/{repo}/{kind}/{number}" if repo and number else ""


def task_json(task: Task, web_url: str) -> dict[str, Any]:
    """What a task is, for programs: the same words wherever one is named."""
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
    """Every task once, with its depth: each before its children, all in their order.

    One whose parent is not among them stands at the edge, as does one of a damaged circle.
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
    """What is going on, and what a person can do, or what follows by itself."""

    what: str
    then: str = ""


def describe_next_step(task: Task, open_runs: Sequence[Run] = ()) -> NextStep:
    """Where a task stands. For those that wait for a place, `why` knows more."""
    if task.over and open_runs:
        return NextStep(_state_and_reason(task), "Its agent is being ended.")
    if task.state is TaskState.RUNNING:
        return _describe_running(task, open_runs)
    return _DESCRIPTIONS.get(task.state, _describe_waiting)(task)


def _describe_running(task: Task, open_runs: Sequence[Run]) -> NextStep:
    run = next(iter(open_runs), None)
    follow = f"Follow it: hostler task tail {task.id}"
    if run is None or run.state not in LIVE:
        return NextStep("Its agent is done; its work is checked and handed on.", "Wait.")
    if run.slot_released_at is not None and run.slot_requested_at is not None:
        return NextStep("Its agent is through with waiting, and wants its place back.", "Wait.")
    if run.slot_released_at is not None:
        others = ", ".join(tasks_awaited_by(run)) or "other tasks"
        return NextStep(f"Its agent waits for {others}, and has lent its place.", follow)
    return NextStep(f"An agent is at work: {run.agent}, attempt {task.attempt}.", follow)


def _describe_review(task: Task) -> NextStep:
    pull = f"{task.repo_full_name}#{task.pr_number}" if task.pr_number else "Its pull request"
    then = "Review it: comments are taken up, merging it ends the task, closing it stops it."
    return NextStep(f"{pull} awaits its review.", then)


def _describe_question(task: Task) -> NextStep:
    where = f"{task.repo_full_name}#{task.pr_number or task.number}"
    on_github = f"Answer with a comment on {where}."
    then = f'Answer it: hostler task answer {task.id} "…"' if task.by_hand else on_github
    return NextStep(f"It asks: {' '.join(task.question.split())}", then)


def _describe_blocked(task: Task) -> NextStep:
    return NextStep(_state_and_reason(task), f"When that is mended: hostler task resume {task.id}")


def _describe_stopped(task: Task) -> NextStep:
    again = f"begin anew: hostler task retry {task.id}"
    if task.reason.startswith(CANCELLED_PREFIX):
        return NextStep(_state_and_reason(task), f"It stays so; {again}")
    return NextStep(_state_and_reason(task), f"Go on: hostler task resume {task.id}; {again}")


def _describe_failed(task: Task) -> NextStep:
    look = f"See what it said: hostler task logs {task.id}"
    return NextStep(_state_and_reason(task), f"{look}; begin anew: hostler task retry {task.id}")


def _describe_done(task: Task) -> NextStep:
    return NextStep(_state_and_reason(task), "Nothing is left to do.")


def _describe_waiting(task: Task) -> NextStep:
    return NextStep(_state_and_reason(task), f"See what holds it: hostler why {task.id}")


def _state_and_reason(task: Task) -> str:
    state = task.state.value.replace("_", " ")
    reason = " ".join(task.reason.split())
    return f"It is {state}. {reason}" if reason else f"It is {state}."


_DESCRIPTIONS: dict[TaskState, Callable[[Task], NextStep]] = {
    TaskState.AWAITING_FEEDBACK: _describe_review,
    TaskState.NEEDS_INPUT: _describe_question,
    TaskState.BLOCKED: _describe_blocked,
    TaskState.STOPPED: _describe_stopped,
    TaskState.FAILED: _describe_failed,
    TaskState.DONE: _describe_done,
}


UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)
_STATE_TEXTS = {
    TaskState.RUNNING: "at work",
    TaskState.AWAITING_FEEDBACK: "awaits review",
    TaskState.NEEDS_INPUT: "asks",
}
# Reasons that say no more than the state.
_STATES_WITHOUT_REASON = frozenset({TaskState.RUNNING, TaskState.AWAITING_FEEDBACK})


def state_text(task: Task) -> str:
    """The state of a task, as people say it."""
    return _STATE_TEXTS.get(task.state, task.state.value.replace("_", " "))


def describe_task(task: Task) -> str:
    """Where a task is, in one line."""
    name = task.id if task.by_hand else f"{task.repo_full_name}#{task.number}"
    pull = f", pull request #{task.pr_number}" if task.pr_number else ""
    why = task.question if task.state is TaskState.NEEDS_INPUT else task.reason
    told = " ".join(why.split())[:200] if task.state not in _STATES_WITHOUT_REASON else ""
    return f"{name}  {task.flow.value.replace('_', ' ')}: {state_text(task)}{pull}" + (
        f". {told}" if told else ""
    )


class TaskFollower:
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
        line = describe_task(task)
        if self._told.get(task.id) != line:
            self._tell(line)
        self._told[task.id] = line

    def _present(self, tx: Transaction) -> dict[str, Outline]:
        """Those that are told of, as they are now; what ended since the last look too."""
        if self._only is not None:
            return outlines_of(tx, self._only)
        unfinished = outlines_in(tx, UNFINISHED_STATES)
        return unfinished | outlines_of(tx, self._known.keys() - unfinished.keys())
