"""Choose the agent and pool of a task from the settings. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hostler.config.settings import Agent, Repo, Settings
from hostler.governor.policy import pool_of
from hostler.service.scheduling.gates import Placement
from hostler.store.operator import ALL, Pause, project_scope
from hostler.store.tasks import Task

# What a project may run at once that the settings do not know.
_DEFAULT_WIDTH = int(Repo.model_fields["max_concurrent_slots"].default)


def find_agent(settings: Settings, project: str, named: str = "") -> tuple[str, Agent] | None:
    """Who works: the one that the task names, or its project, or the only one there is."""
    repo = settings.repo.get(project)
    name = named or (repo.agent if repo else "")
    if not name and len(settings.agent) == 1:
        name = next(iter(settings.agent))
    return (name, settings.agent[name]) if name in settings.agent else None


def find_placement(
    settings: Settings,
    task: Task,
    paused: Mapping[str, Pause],
    ready: Collection[str],
    closed: Collection[str] = (),
) -> Placement | None:
    """A task's place; None where the settings have none for it. `closed`: pools nobody may call."""
    repo = settings.repo.get(task.project)
    found = find_agent(settings, task.project, task.agent)
    if found is None or (task.repo_full_name is not None and repo is None):
        return None
    name, agent = found if _has_begun(task) else choose_fallback(settings, *found, closed)
    return Placement(
        project=task.project,
        agent=name,
        agent_kind=agent.kind,
        pool=pool_of(agent),
        width=repo.max_concurrent_slots if repo else _DEFAULT_WIDTH,
        weight=repo.weight if repo else 1,
        paused=paused_text(task.project, paused, in_settings=bool(repo and repo.paused)),
        ready=task.repo_full_name is None or task.project in ready,
    )


def _has_begun(task: Task) -> bool:
    """Whether an agent has worked on a task: then it stays with that one.

    Its progress is noted when an agent begins, and stays when its attempt is not counted.
    """
    return bool(task.attempt or task.turn or task.session or task.pr_number or task.progress)


def choose_fallback(
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


def agent_to_keep(settings: Settings, task: Task, agent: str) -> str:
    """Whom a task names after an agent worked on it: a fallback goes on with what it began."""
    usual = find_agent(settings, task.project, task.agent)
    return agent if usual and agent in list_fallbacks(settings, usual[0]) else task.agent


def list_fallbacks(settings: Settings, name: str) -> list[str]:
    """An agent's fallbacks, in the order in which they are tried. Pure."""
    found: list[str] = []
    after = settings.agent[name].fallback
    while after in settings.agent and after not in {name, *found}:
        found.append(after)
        after = settings.agent[after].fallback
    return found


def paused_text(project: str, paused: Mapping[str, Pause], *, in_settings: bool) -> str:
    """What holds a project back; empty: nothing does."""
    if in_settings:
        return f"{project} is paused in the settings."
    for scope, what in ((ALL, "Everything"), (project_scope(project), project)):
        if scope in paused:
            held = paused[scope]
            return f"{what} was paused by {held.by}" + (f": {held.why}" if held.why else ".")
    return ""
