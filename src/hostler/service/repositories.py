"""The context of each watched repository, and handling of repositories renamed on GitHub."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hostler.agents.prepare import (
    TOOLS_FOLDER,
    append_to_path,
    build_agent_environment,
    secret_variables,
)
from hostler.checkouts.checkout import CommitIdentity
from hostler.checkouts.mirror import Remote, move_mirror, open_mirror
from hostler.config.repositories import repo_full_name
from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.forge.github.hub import GitHubHub
from hostler.intake.repo_policy import build_repo_policy
from hostler.model import RepoName
from hostler.service.context import AppContext
from hostler.service.scheduling.placement import find_agent
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
from hostler.workflows.workspace import RepoContext

# Whoever decides or writes by a repository's name waits, and reads the new one.
_RENAME_SCOPES = ("admission", "outbox", "tasks")
# A running one is refused by its context when its agent is done.
_NOT_RUNNING_STATES = tuple(one for one in TaskState if one not in (*OVER, TaskState.RUNNING))


class SameRepository(HostlerError):
    """Two sections of the settings mean one repository."""


@dataclass(frozen=True, slots=True)
class RepositoryNames:
    """Where names are known: in the settings, on GitHub, and here."""

    store: Store
    hub: GitHubHub
    settings: Settings
    home: Path

    def know(self, project: str) -> None:
        """Make what is stored of a project's repository stand under the name it has now."""
        name = repo_full_name(self.settings.repo[project])
        number = self.hub.repo(name).repository().id
        with self.store.read() as tx:
            known, former = find_repository(tx, name), find_by_github_id(tx, number)
        if known is None or known.name != name or known.github_id != number:
            self._require_gone(former, name, number)
            aside = self._aside(known, name, number)
            with self.store.write(*_RENAME_SCOPES) as tx:
                self._carry_over(tx, name, number, aside)
        with self.store.read() as tx:
            strays = _find_misassigned(tx, project, name)
        if strays:
            with self.store.write(*_RENAME_SCOPES) as tx:
                _stop_misassigned(tx, project, name)

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
        present = self.hub.repo(name).find_repository_name(other)
        with self.store.read() as tx:
            free = present is not None and find_repository(tx, present) is None
        if present is not None and free and present in self._watched():
            return present
        return RepoName(name.owner, f"{name.name}.former-{other}")

    def _watched(self) -> set[RepoName]:
        return {repo_full_name(repo) for repo in self.settings.repo.values()}


def _find_misassigned(tx: Transaction, project: str, name: RepoName) -> list[Task]:
    """Return idle tasks whose section of the settings now names another repository."""
    return [
        task
        for task in tasks_in(tx, _NOT_RUNNING_STATES)
        if task.project == project and task.repo_full_name not in (None, str(name))
    ]


def _stop_misassigned(tx: Transaction, project: str, name: RepoName) -> None:
    """Stop tasks whose section of the settings now names another repository."""
    for task in _find_misassigned(tx, project, name):
        reason = f"[repo.{task.project}] does not mean {task.repo_full_name} any more."
        change_task(tx, task, replace(task, state=TaskState.STOPPED, reason=reason, wake_at=None))


class NotWatched(HostlerError):
    """A task belongs to a repository, or an agent, that the settings do not name any more."""


class RepoContexts:
    """The contexts of all watched repositories, built when first needed."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._made: dict[str, RepoContext] = {}
        # The contexts that later settings replaced these with.
        self._newer: RepoContexts | None = None

    def of(self, project: str) -> RepoContext:
        """Return the context of a project. The first call queries GitHub."""
        newer = self._newer
        if newer is not None and self._was_renamed(project, newer):
            # Work that began with earlier settings continues in the renamed repository.
            return newer.of(project)
        with self._lock:
            made = self._made.get(project)
        if made is not None:
            return made
        # Query GitHub without the lock: the scheduler calls `ready` meanwhile.
        made = self._make(project)
        with self._lock:
            return self._made.setdefault(project, made)

    def ready(self) -> frozenset[str]:
        """Return projects whose context exists."""
        with self._lock:
            return frozenset(self._made)

    def renewed(self, app: AppContext) -> RepoContexts:
        """Return the contexts for changed settings. Repositories with the same name keep theirs."""
        after = RepoContexts(app)
        with self._lock:
            made = dict(self._made)
        for project, repo_context in made.items():
            repo = app.settings.repo.get(project)
            if repo is not None and RepoName(repo.owner, repo.name) == repo_context.policy.repo:
                after._made[project] = replace(repo_context, **_settings_fields(app, project))
        self._newer = after
        return after

    def _was_renamed(self, project: str, newer: RepoContexts) -> bool:
        """Return True if later settings give the project another repository name."""
        before = self._app.settings.repo.get(project)
        after = newer._app.settings.repo.get(project)
        return after is not None and (
            before is None or repo_full_name(before) != repo_full_name(after)
        )

    def _make(self, project: str) -> RepoContext:
        app, settings = self._app, self._app.settings
        if project not in settings.repo or find_agent(settings, project) is None:
            raise NotWatched(
                f"{project} is not in the settings, or has no agent there.",
                safe="Its tasks wait.",
                remedy="Add it again with `hostler repo add`, or name its agent.",
            )
        repo = settings.repo[project]
        name = RepoName(repo.owner, repo.name)
        RepositoryNames(app.store, app.hub, settings, app.home).know(project)
        return RepoContext(
            store=app.store,
            mirror=open_mirror(app.mirrors, name),
            remote=_build_remote(app, name),
            checkouts=app.checkouts,
            identity=_build_identity(app.hub.credentials.login(), settings.github.web_url),
            **_settings_fields(app, project),
        )


def _settings_fields(app: AppContext, project: str) -> dict[str, Any]:
    """Return the fields of a context that come from the settings."""
    repo = app.settings.repo[project]
    return {
        "policy": build_repo_policy(project, repo, app.settings.tasks),
        "settings": repo,
        "limits": app.settings.tasks,
        "env": _command_environment(app, project),
    }


def _build_remote(app: AppContext, name: RepoName) -> Remote:
    """Return the remote of a repository, with Hostler's credentials."""
    web = app.settings.github.web_url.rstrip("/")
    return Remote(f"{web}/{name}.git", token=lambda: app.hub.credentials.get_secret(name))


def _build_identity(login: str, web_url: str) -> CommitIdentity:
    """Return the commit identity: Hostler's account with its no-reply address."""
    host = urlsplit(web_url).hostname or "localhost"
    return CommitIdentity(login, f"{login}@users.noreply.{host}")


def _command_environment(app: AppContext, project: str) -> dict[str, str]:
    """Return the environment of setup and test commands: that of the repository's agent."""
    found = find_agent(app.settings, project)
    listed = found[1].env if found else []
    names = secret_variables(app.settings)
    return append_to_path(build_agent_environment(app.environment, listed, {}, names), TOOLS_FOLDER)
