"""One desk per repository, made from the settings when it is first needed."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from hostler.agents.environment import agent_environment, secret_names, with_tools
from hostler.agents.prepare import TOOLS
from hostler.checkouts.mirror import open_mirror
from hostler.checkouts.place import Identity
from hostler.checkouts.remote import Remote
from hostler.config.repos import full_name
from hostler.errors import HostlerError
from hostler.flows import Desk
from hostler.intake import watch
from hostler.model import RepoName
from hostler.service.house import House
from hostler.service.places import agent_for
from hostler.service.renaming import Names


class NotWatched(HostlerError):
    """A task belongs to a repository, or an agent, that the settings do not name any more."""


class Desks:
    """The desks of a house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._lock = threading.Lock()
        self._made: dict[str, Desk] = {}
        # Those that were made by later settings.
        self._newer: Desks | None = None

    def of(self, project: str) -> Desk:
        """A project's desk. Asks GitHub for our name and its number, the first time."""
        newer = self._newer
        if newer is not None and self._was_renamed(project, newer):
            # Whoever began by the old settings brings its work to where the repository is now.
            return newer.of(project)
        with self._lock:
            made = self._made.get(project)
        if made is not None:
            return made
        # Nobody is kept waiting while GitHub is asked: the scheduler wants to know who is ready.
        made = self._make(project)
        with self._lock:
            return self._made.setdefault(project, made)

    def ready(self) -> frozenset[str]:
        """Projects whose desk is there."""
        with self._lock:
            return frozenset(self._made)

    def renewed(self, house: House) -> Desks:
        """The desks by other settings. Whose name stays the same needs nothing of GitHub."""
        after = Desks(house)
        with self._lock:
            made = dict(self._made)
        for project, desk in made.items():
            repo = house.settings.repo.get(project)
            if repo is not None and RepoName(repo.owner, repo.name) == desk.watch.repo:
                after._made[project] = replace(desk, **_by_settings(house, project))
        self._newer = after
        return after

    def _was_renamed(self, project: str, newer: Desks) -> bool:
        """Whether later settings know the project, under another name."""
        before = self._house.settings.repo.get(project)
        after = newer._house.settings.repo.get(project)
        return after is not None and (before is None or full_name(before) != full_name(after))

    def _make(self, project: str) -> Desk:
        house, settings = self._house, self._house.settings
        if project not in settings.repo or agent_for(settings, project) is None:
            raise NotWatched(
                f"{project} is not in the settings, or has no agent there.",
                safe="Its tasks wait.",
                remedy="Add it again with `hostler repo add`, or name its agent.",
            )
        repo = settings.repo[project]
        name = RepoName(repo.owner, repo.name)
        Names(house.store, house.hub, settings, house.home).know(project)
        return Desk(
            store=house.store,
            mirror=open_mirror(house.mirrors, name),
            remote=remote_of(house, name),
            checkouts=house.checkouts,
            identity=identity_of(house.hub.credentials.login(), settings.github.web_url),
            **_by_settings(house, project),
        )


def _by_settings(house: House, project: str) -> dict[str, Any]:
    """What of a desk only the settings say."""
    repo = house.settings.repo[project]
    return {
        "watch": watch(project, repo, house.settings.tasks),
        "settings": repo,
        "limits": house.settings.tasks,
        "env": command_environment(house, project),
    }


def remote_of(house: House, name: RepoName) -> Remote:
    """Where a repository is fetched from and pushed to, as us."""
    web = house.settings.github.web_url.rstrip("/")
    return Remote(f"{web}/{name}.git", token=lambda: house.hub.credentials.bearer(name))


def identity_of(login: str, web_url: str) -> Identity:
    """Who commits: our account, by the address that the host knows it under."""
    host = urlsplit(web_url).hostname or "localhost"
    return Identity(login, f"{login}@users.noreply.{host}")


def command_environment(house: House, project: str) -> dict[str, str]:
    """What setup and test commands of a repository see: the same as its agent."""
    found = agent_for(house.settings, project)
    listed = found[1].env if found else []
    names = secret_names(house.settings)
    return with_tools(agent_environment(house.environment, listed, {}, names), TOOLS)
