"""What somebody asks for, made whole: project, place, agent, variables. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePath

from hostler.agents.environment import secret_names
from hostler.bus.message import is_name
from hostler.config.repos import full_name, meant
from hostler.config.settings import Settings
from hostler.flows.submitting import NotSubmitted, Order
from hostler.model import RepoName
from hostler.service.places import agent_for
from hostler.store.tasks import Task

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Wish:
    """What was typed. Empty: not said. Folders are absolute; `here` is the one it was typed in."""

    prompt: str
    author: str
    here: str
    project: str = ""
    cwd: str = ""
    repo: str = ""
    agent: str = ""
    env: tuple[str, ...] = ()
    wall_limit_minutes: int = 0
    max_restarts: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """A project, and the folder or the repository in which a task of it works."""

    project: str
    cwd: str = ""
    repo: RepoName | None = None


def order_for(settings: Settings, wish: Wish, parent: Task | None) -> Order:
    """The order, or what is wrong with it. Inside a run, `parent` is the task at work."""
    where = where_for(settings, wish, parent)
    return Order(
        project=where.project,
        prompt=wish.prompt,
        author=wish.author,
        cwd=where.cwd,
        repo_full_name=str(where.repo) if where.repo else None,
        agent=_agent(settings, where, wish.agent or (parent.agent if parent else "")),
        env=_env(settings, wish.env, parent),
        wall_limit_minutes=wish.wall_limit_minutes,
        max_restarts=wish.max_restarts,
        parent_task=parent.id if parent else None,
        title=" ".join(wish.title.split()),
    )


def where_for(settings: Settings, wish: Wish, parent: Task | None) -> Where:
    """Where it works: as said, else where its parent does, else here."""
    if wish.cwd and wish.repo:
        raise NotSubmitted("There is a --cwd and a --repo; a task works in one of them.")
    if wish.repo:
        return _in_repository(settings, meant(settings.repo, wish.repo), wish.project)
    if parent is not None and parent.repo_full_name and not wish.cwd:
        return _in_repository(settings, parent.project, wish.project)
    if parent is not None:
        return Where(_usable(wish.project or parent.project), wish.cwd or parent.cwd)
    folder = wish.cwd or wish.here
    if not folder:
        raise NotSubmitted("The folder you are in is gone.", "Name another one with --cwd.")
    return Where(_usable(wish.project or PurePath(folder).name), folder)


def _in_repository(settings: Settings, id: str, project: str) -> Where:
    if id not in settings.repo:
        raise NotSubmitted(
            f"The settings do not name the repository {id} any more.", "Use --cwd, or --repo."
        )
    if project not in ("", id):
        raise NotSubmitted(
            f"A task on the repository {id} belongs to the project {id}, not to {project!r}.",
            "Leave --project out.",
        )
    return Where(id, repo=full_name(settings.repo[id]))


def _usable(project: str) -> str:
    if is_name(project):
        return project
    raise NotSubmitted(
        f"{project[:80]!r} cannot be the name of a project.",
        "Name one with --project: letters, digits, '.', '_' and '-', "
        "beginning with a letter or digit.",
    )


def _agent(settings: Settings, where: Where, named: str) -> str:
    """The name of an agent that there is; empty where the settings leave no choice."""
    names = ", ".join(sorted(settings.agent))
    if not names:
        raise NotSubmitted(
            "The settings name no agent.",
            "Add an [agent.<name>] table, or write a file with `hostler init`.",
        )
    if named and named not in settings.agent:
        raise NotSubmitted(f"There is no agent {named!r}.", f"There are: {names}.")
    if agent_for(settings, where.project, named) is None:
        raise NotSubmitted(
            "There are several agents, and none was named.", f"Name one with --agent: {names}."
        )
    return named


def _env(settings: Settings, names: Iterable[str], parent: Task | None) -> tuple[str, ...]:
    """Names of variables that an agent may see; never one that holds a secret of ours."""
    found = tuple(dict.fromkeys(name.strip() for name in names))
    wrong = [name for name in found if not _VARIABLE.fullmatch(name)]
    if wrong:
        raise NotSubmitted(
            f"{wrong[0][:80]!r} is not the name of a variable.",
            "Give its name alone; its value is taken when an agent starts.",
        )
    secret = {name.upper() for name in secret_names(settings)}
    refused = [name for name in found if name.upper() in secret]
    if refused:
        raise NotSubmitted(
            f"{refused[0]} holds a secret of Hostler's own: no agent sees it.", "Leave it out."
        )
    return _no_more_than(parent, settings, found) if parent else found


def _no_more_than(parent: Task, settings: Settings, names: Collection[str]) -> tuple[str, ...]:
    """An agent hands on what it was let see, and nothing else of ours."""
    found = agent_for(settings, parent.project, parent.agent)
    seen = {*parent.env, *(found[1].env if found else ())}
    more = [name for name in names if name not in seen]
    if more:
        raise NotSubmitted(
            f"The task {parent.id} may not see {more[0]}, so it cannot hand it on.",
            "A person can allow it, in the agent's `env` or with --env.",
        )
    return tuple(names)
