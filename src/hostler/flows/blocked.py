"""Which pull requests and issues are blocked, since when, why; and letting them go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hostler.flows.commands import CommandRefused
from hostler.flows.resuming import Order, look_at_blocked, unblock
from hostler.flows.standing import NotResumed
from hostler.forge.port import Forge
from hostler.intake import Watch
from hostler.model import RepoName
from hostler.store import Store
from hostler.store.inbox import count_held
from hostler.store.tasks import Task, TaskState, tasks_in
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Blocked:
    """One blocked task of GitHub's, and how many words wait for it."""

    task: Task
    waiting: int

    @property
    def name(self) -> str:
        """Where it is talked about."""
        return f"{self.task.repo_full_name}#{self.task.pr_number or self.task.number}"

    @property
    def remedy(self) -> str:
        """What to do when the cause is mended."""
        task = self.task
        if task.pr_number is None:
            return f"hostler run {task.repo_full_name}#{task.number}"
        return f"hostler feedback blocked reset --pr {task.pr_number} --repo {task.repo_full_name}"


def blocked(tx: Transaction, repo: RepoName | None = None) -> list[Blocked]:
    """What is blocked, longest first; tasks without any thread on GitHub are not among it."""
    found = [task for task in tasks_in(tx, (TaskState.BLOCKED,), repo) if _threads(task)]
    found.sort(key=lambda task: (task.state_since, task.id))
    return [Blocked(task, count_held(tx, task.repo, _threads(task))) for task in found]


def _threads(task: Task) -> set[int]:
    if task.repo_full_name is None:
        return set()
    return {number for number in (task.issue_number, task.pr_number) if number}


@dataclass(frozen=True, slots=True)
class Reset:
    """What became of one that was to go on: its task then, or why it stays as it is.

    `over`: it is closed or merged on GitHub, so there is nothing to go on with.
    """

    blocked: Blocked
    task: Task | None = None
    why: str = ""
    over: bool = False


@dataclass(frozen=True, slots=True)
class Resetter:
    """Lets blocked tasks go on, one transaction each. `dry`: only GitHub is asked."""

    store: Store
    forges: Callable[[RepoName], Forge]
    watches: Mapping[RepoName, Watch]
    order: Order
    dry: bool = False

    def reset(self, one: Blocked) -> Reset:
        """Let one go on. Raises where GitHub does not answer."""
        watch = self.watches.get(one.task.repo)
        if watch is None:
            return Reset(one, why=f"{one.task.repo} is not watched any more.")
        try:
            return Reset(one, self._unblocked(one.task, watch))
        except CommandRefused as error:
            return Reset(one, why=error.what)
        except NotResumed as error:
            return Reset(one, why=error.what, over=error.over)

    def _unblocked(self, task: Task, watch: Watch) -> Task:
        forge = self.forges(task.repo)
        if not self.dry:
            return unblock(self.store, forge, watch, task, self.order)
        look_at_blocked(self.store, forge, watch, task, self.order)
        return task
