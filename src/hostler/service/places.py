"""Where a task runs, and with whom, by the settings. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hostler.config.settings import Agent, Repo, Settings
from hostler.governor import pool_of
from hostler.service.candidates import Place
from hostler.store.operator import ALL, Pause, project_scope
from hostler.store.tasks import Task

# What a project may run at once that the settings do not know.
USUAL_WIDTH = int(Repo.model_fields["max_concurrent_slots"].default)


def agent_for(settings: Settings, project: str, named: str = "") -> tuple[str, Agent] | None:
    """Who works: the one that the task names, or its project, or the only one there is."""
    repo = settings.repo.get(project)
    name = named or (repo.agent if repo else "")
    if not name and len(settings.agent) == 1:
        name = next(iter(settings.agent))
    return (name, settings.agent[name]) if name in settings.agent else None


def place_of(
    settings: Settings,
    task: Task,
    paused: Mapping[str, Pause],
    ready: Collection[str],
    closed: Collection[str] = (),
) -> Place | None:
    """A task's place; None where the settings have none for it. `closed`: pools nobody may call."""
    repo = settings.repo.get(task.project)
    found = agent_for(settings, task.project, task.agent)
    if found is None or (task.repo_full_name is not None and repo is None):
        return None
    name, agent = found if has_begun(task) else instead_of(settings, *found, closed)
    return Place(
        project=task.project,
        agent=name,
        agent_kind=agent.kind,
        pool=pool_of(agent),
        width=repo.max_concurrent_slots if repo else USUAL_WIDTH,
        weight=repo.weight if repo else 1,
        paused=paused_words(task.project, paused, in_settings=bool(repo and repo.paused)),
        ready=task.repo_full_name is None or task.project in ready,
    )


def has_begun(task: Task) -> bool:
    """Whether an agent has worked on a task: then it stays with that one.

    Its progress is noted when an agent begins, and stays when its attempt is not counted.
    """
    return bool(task.attempt or task.turn or task.session or task.pr_number or task.progress)


def instead_of(
    settings: Settings, name: str, agent: Agent, closed: Collection[str]
) -> tuple[str, Agent]:
    """The first of an agent and its fallbacks whose pool is open; itself, if none is."""
    tried, other = {name}, agent
    while pool_of(other) in closed:
        after = other.fallback
        if after in tried or after not in settings.agent:
            return name, agent
        tried.add(after)
        other = settings.agent[after]
        if pool_of(other) not in closed:
            return after, other
    return name, agent


def kept_by(settings: Settings, task: Task, agent: str) -> str:
    """Whom a task names after an agent worked on it: a fallback goes on with what it began."""
    usual = agent_for(settings, task.project, task.agent)
    return agent if usual and agent in chain(settings, usual[0]) else task.agent


def chain(settings: Settings, name: str) -> list[str]:
    """An agent's fallbacks, in the order in which they are tried. Pure."""
    found: list[str] = []
    after = settings.agent[name].fallback
    while after in settings.agent and after not in {name, *found}:
        found.append(after)
        after = settings.agent[after].fallback
    return found


def paused_words(project: str, paused: Mapping[str, Pause], *, in_settings: bool) -> str:
    """What holds a project back; empty: nothing does."""
    if in_settings:
        return f"{project} is paused in the settings."
    for scope, what in ((ALL, "Everything"), (project_scope(project), project)):
        if scope in paused:
            held = paused[scope]
            return f"{what} was paused by {held.by}" + (f": {held.why}" if held.why else ".")
    return ""
