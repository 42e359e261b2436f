"""Repositories are known by GitHub's number: what is stored follows it from name to name.

GitHub is asked once for each repository, before anything of its project is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hostler.checkouts.moving import move_mirror
from hostler.config.repos import full_name
from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.forge import Hub
from hostler.model import RepoName
from hostler.store import Store
from hostler.store.repositories import (
    Repo,
    Repository,
    find_by_github_id,
    find_repository,
    rename_repository,
)
from hostler.store.tasks import OVER, Task, TaskState, change_task, tasks_in
from hostler.store.transaction import Transaction

# Whoever decides or writes by a repository's name waits, and reads the new one.
SCOPES = ("admission", "outbox", "tasks")
# A running one is refused by its desk when its agent is done.
RESTING = tuple(one for one in TaskState if one not in (*OVER, TaskState.RUNNING))


class SameRepository(HostlerError):
    """Two sections of the settings mean one repository."""


@dataclass(frozen=True, slots=True)
class Names:
    """Where names are known: in the settings, on GitHub, and here."""

    store: Store
    hub: Hub
    settings: Settings
    home: Path

    def know(self, project: str) -> None:
        """Make what is stored of a project's repository stand under the name it has now."""
        name = full_name(self.settings.repo[project])
        number = self.hub.repo(name).repository().id
        with self.store.read() as tx:
            known, former = find_repository(tx, name), find_by_github_id(tx, number)
        if known is None or known.name != name or known.github_id != number:
            self._require_gone(former, name, number)
            aside = self._aside(known, name, number)
            with self.store.write(*SCOPES) as tx:
                self._carry_over(tx, name, number, aside)
        with self.store.read() as tx:
            strays = strays_of(tx, project, name)
        if strays:
            with self.store.write(*SCOPES) as tx:
                stop_strays(tx, project, name)

    def _carry_over(self, tx: Transaction, name: RepoName, number: int, aside: RepoName) -> None:
        other = find_repository(tx, name)
        if other is not None and other.github_id not in (None, number):
            self._move(other.name, aside)
            rename_repository(tx, other.name, aside)
        former = find_by_github_id(tx, number) or find_repository(tx, name)
        if former is not None:
            self._move(former.name, name)
        Repo(name).add(tx, number)

    def _move(self, old: RepoName, new: RepoName) -> None:
        """First, and repeatable: whoever is cut off here does it again at the next start."""
        move_mirror(self.home / "mirrors", self.home / "checkouts", old, new)

    def _require_gone(self, former: Repository | None, name: RepoName, number: int) -> None:
        """Rows move to a new name only if their repository is not watched under the old one."""
        if former is None or former.name == name or former.name not in self._watched():
            return
        if self.hub.repo(former.name).repository().id == number:
            raise SameRepository(
                f"{former.name} and {name} are one repository: GitHub has renamed it.",
                safe=f"It goes on as {former.name}; nothing was stored under the other name.",
                remedy=f"Keep one of the two in the settings, under the id that {former.name} has.",
            )

    def _aside(self, known: Repository | None, name: RepoName, number: int) -> RepoName:
        """Where rows go of another repository that had this name."""
        other = known.github_id if known is not None else None
        if other is None or other == number:
            return name
        present = self.hub.repo(name).name_of(other)
        with self.store.read() as tx:
            free = present is not None and find_repository(tx, present) is None
        if present is not None and free and present in self._watched():
            return present
        return RepoName(name.owner, f"{name.name}.former-{other}")

    def _watched(self) -> set[RepoName]:
        return {full_name(repo) for repo in self.settings.repo.values()}


def strays_of(tx: Transaction, project: str, name: RepoName) -> list[Task]:
    """Tasks at rest whose section of the settings means another repository than theirs now."""
    return [
        task
        for task in tasks_in(tx, RESTING)
        if task.project == project and task.repo_full_name not in (None, str(name))
    ]


def stop_strays(tx: Transaction, project: str, name: RepoName) -> None:
    """Nothing is done in one repository that was meant for another."""
    for task in strays_of(tx, project, name):
        reason = f"[repo.{task.project}] does not mean {task.repo_full_name} any more."
        change_task(tx, task, replace(task, state=TaskState.STOPPED, reason=reason, wake_at=None))
