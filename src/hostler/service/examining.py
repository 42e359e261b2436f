"""What can be known of an agent before it works, without spending anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.agents import installed
from hostler.agents.environment import secret_names
from hostler.agents.errors import SecretRefused
from hostler.agents.launch import Assignment
from hostler.agents.login import login
from hostler.agents.prepare import make_folders, plan
from hostler.agents.sandbox import sandbox
from hostler.config.settings import Agent, Settings
from hostler.governor import pool_of
from hostler.health import Finding, Status
from hostler.service.places import chain

# Where nothing is known of an agent's own PATH.
_NOWHERE = ""
ENVIRONMENT, FALLBACK = "environment", "fallback"


@dataclass(frozen=True, slots=True)
class Listed:
    """One agent of the settings. No path: its program is missing, or a part of Hostler."""

    name: str
    kind: str
    model: str
    pool: str
    program: str
    path: str | None
    version: str
    fallback: str


def listed(settings: Settings, ours: Mapping[str, str], folder: Path) -> Iterator[Listed]:
    """All agents, with the versions that their programs tell. Each program is asked once."""
    versions: dict[str, str] = {}
    for name, agent in settings.agent.items():
        env = _environment_or_less(agent, settings, ours, folder)
        path = installed.path_of(agent, env["PATH"])
        if path is not None and path not in versions:
            versions[path] = installed.version_of(agent, env, folder)
        yield Listed(
            name=name,
            kind=agent.kind,
            model=agent.model,
            pool=pool_of(agent),
            program=installed.program_of(agent),
            path=path,
            version=versions.get(path or "", ""),
            fallback=agent.fallback,
        )


def _environment_or_less(
    agent: Agent, settings: Settings, ours: Mapping[str, str], folder: Path
) -> Mapping[str, str]:
    """For a look that refuses nothing: of an agent that may not start, where its program is."""
    try:
        return environment_of(agent, settings, ours, folder)
    except SecretRefused:
        return {"PATH": ours.get("PATH", _NOWHERE)}


def examine(
    settings: Settings, name: str, ours: Mapping[str, str], folder: Path
) -> Iterator[Finding]:
    """All questions to one agent, in an empty folder of its own."""
    agent = settings.agent[name]
    try:
        env = environment_of(agent, settings, ours, folder)
    except SecretRefused as refused:
        yield Finding(ENVIRONMENT, Status.FAILED, refused.what, refused.remedy)
        return
    yield Finding(ENVIRONMENT, Status.OK, f"{len(env)} variables, none of them a secret of ours")
    present = installed.installed(agent, env["PATH"])
    yield from present
    if all(one.status is Status.OK for one in present):
        yield from installed.version(agent, installed.version_of(agent, env, folder))
        yield from login(agent, env, folder)
    yield from installed.memory(agent)
    yield from sandbox(agent.sandbox, ours)
    yield from fallbacks(settings, name)


def environment_of(
    agent: Agent, settings: Settings, ours: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """As a launch in this folder would make it, with what the supervisor hands on."""
    work = scratch_work(folder)
    launch = plan(agent, work, ours, secret_names(settings))
    make_folders(agent, work)
    return {**launch.env, **{name: ours[name] for name in launch.inherit}}


def scratch_work(folder: Path, prompt: str = "") -> Assignment:
    """An assignment of nobody's, in a scratch folder."""
    task = folder / "task"
    return Assignment(
        run="trial",
        task="trial",
        project="trial",
        attempt=1,
        home=folder,
        task_dir=task,
        run_dir=task / "runs" / "trial",
        checkout=folder / "checkout",
        prompt=prompt,
        context={"flow": "task", "prompt": prompt},
    )


def fallbacks(settings: Settings, name: str) -> Iterator[Finding]:
    """Who takes new tasks while its pool is closed. Pure."""
    order = [name, *chain(settings, name)]
    if len(order) == 1:
        return
    pools = [pool_of(settings.agent[one]) for one in order]
    told = ", then ".join(f"{one} ({pool})" for one, pool in zip(order, pools, strict=True))
    if len(set(pools)) == len(pools):
        yield Finding(FALLBACK, Status.OK, told)
    else:
        remedy = "Give one of them another `pool`, or take it out of the chain."
        yield Finding(FALLBACK, Status.WARNING, f"{told}: one pool closes for both", remedy)
