"""Where a task runs, and with whom, by the settings. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hostler.config.settings import Agent, Repo, Settings
from hostler.governor import pool_of
from hostler.service.candidates import Place
from hostler.store.pauses import ALL, Pause, project_scope
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
    settings: Settings, task: Task, paused: Mapping[str, Pause], ready: Collection[str]
) -> Place | None:
    """A task's place; None where the settings have none for it."""
    repo = settings.repo.get(task.project)
    found = agent_for(settings, task.project, task.agent)
    if found is None or (task.repo_full_name is not None and repo is None):
        return None
    name, agent = found
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


def paused_words(project: str, paused: Mapping[str, Pause], *, in_settings: bool) -> str:
    """What holds a project back; empty: nothing does."""
    if in_settings:
        return f"{project} is paused in the settings."
    for scope, what in ((ALL, "Everything"), (project_scope(project), project)):
        if scope in paused:
            held = paused[scope]
            return f"{what} was paused by {held.by}" + (f": {held.why}" if held.why else ".")
    return ""
