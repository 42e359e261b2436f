"""Find the task or pull request that an operator command is about."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.errors import HostlerError
from hostler.forge.port import Forge
from hostler.intake.model import ThreadState
from hostler.intake.repo_policy import RepoPolicy
from hostler.service.context import AppContext
from hostler.store.operator import CommandRow
from hostler.store.pull_requests import find_pull
from hostler.store.tasks import Task, find_task, tasks_of_issue
from hostler.store.transaction import Transaction


class CommandNotApplicable(HostlerError):
    """A command that means nothing where it was said."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Where commands are carried out: the app, and one of its repositories."""

    app: AppContext
    watch: RepoPolicy

    @property
    def forge(self) -> Forge:
        """The repository on GitHub."""
        return self.app.hub.repo(self.watch.repo)


def find_thread_task(tx: Transaction, post: CommandContext, command: CommandRow) -> Task:
    """The task of the thread where it was said."""
    found = _find_task_at(tx, post, command.thread_number)
    if found is None:
        raise CommandNotApplicable(
            "This thread has no task.", "Say it on the issue or pull request of the task you mean."
        )
    return found


def _find_task_at(tx: Transaction, post: CommandContext, number: int) -> Task | None:
    pull = find_pull(tx, post.watch.repo, number)
    if pull is not None:
        return find_task(tx, pull.task)
    return ThreadState(tuple(tasks_of_issue(tx, post.watch.repo, number))).current_task


def find_issue_task(tx: Transaction, post: CommandContext, command: CommandRow) -> Task:
    """The task of the issue that is named, else of the thread."""
    named = command.arguments.get("issue")
    if named is None:
        return find_thread_task(tx, post, command)
    found = ThreadState(tuple(tasks_of_issue(tx, post.watch.repo, int(named)))).current_task
    if found is None:
        raise CommandNotApplicable(f"Issue {named} has no task.")
    return found


def find_pull_task(tx: Transaction, post: CommandContext, command: CommandRow) -> Task:
    """The task of the pull request that is named, else of the thread."""
    named = command.arguments.get("pr")
    if named is None:
        return find_thread_task(tx, post, command)
    # Of other repositories nothing is said here: who reads this may not know of them.
    pull = find_pull(tx, post.watch.repo, int(named))
    found = find_task(tx, pull.task) if pull is not None else None
    if found is None:
        raise CommandNotApplicable(
            f"Pull request {named} is not one of ours, or its task was deleted."
        )
    return found


def find_target_pull(
    tx: Transaction, post: CommandContext, command: CommandRow
) -> tuple[int | None, Task]:
    """The pull request to go on with, if there is one, and its task."""
    task = find_pull_task(tx, post, command)
    named = command.arguments.get("pr")
    here = find_pull(tx, post.watch.repo, command.thread_number)
    return int(named) if named else here.pr_number if here else task.pr_number, task
