"""A town with many repositories, each with a trouble of its own, and a clock that can jump."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from broken_road import Road
from service_town import ALICE, BOB, LABELS, US, Person, Service, Town

from hostler.clock import SystemClock
from hostler.config.settings import Agent, Repo, Settings
from hostler.sandbox.state.seed import Seeder
from hostler.sandbox.state.world import World
from hostler.store.outbox import open_writes
from hostler.store.tasks import Task, TaskState

AT_REST = frozenset(TaskState) - {TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING}
REVIEW = TaskState.AWAITING_FEEDBACK


class JumpyClock(SystemClock):
    """The machine's clock, moved at will; what waits for a time is not woken by that."""

    def __init__(self) -> None:
        self._moved = timedelta()

    def now(self) -> datetime:
        return super().now() + self._moved

    def jump(self, seconds: float) -> None:
        self._moved += timedelta(seconds=seconds)


@dataclass
class Plot:
    """One repository: what GitHub has of it (None: nothing), its settings, its agent's."""

    name: str
    repo: dict[str, Any] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    # Settings of the agent that no person may ask for.
    beyond: dict[str, Any] = field(default_factory=dict)
    seed: dict[str, Any] | None = field(default_factory=dict)
    access: str = "write"

    @property
    def full_name(self) -> str:
        return f"{ALICE}/{self.name}"


@dataclass
class RoughTown(Town):
    """A town whose repositories are its plots."""

    plots: list[Plot] = field(default_factory=list)
    clock: JumpyClock = field(default_factory=JumpyClock)
    # Where our service believes GitHub to be, if not where it is.
    road: str = ""
    # Settings of tasks that no person may ask for.
    beyond: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.repo.setdefault("agent", "helper")
        repos = [
            {
                "name": plot.full_name,
                "auto_init": True,
                "labels": LABELS,
                "collaborators": {US: plot.access, BOB: "write"},
                **plot.seed,
            }
            for plot in self.plots
            if plot.seed is not None
        ]
        self.hub.seed({"repos": repos})

    def settings(self, more: dict[str, dict[str, Any]] | None = None) -> Settings:
        usual = super().settings(more)
        where = {"api_url": self.road, "web_url": self.road} if self.road else {}
        agents = {
            plot.name: Agent(**plot.agent).model_copy(update=plot.beyond)
            for plot in self.plots
            if plot.agent
        }
        repos = {plot.name: self._repo(plot) for plot in self.plots}
        return usual.model_copy(
            update={
                "github": usual.github.model_copy(update=where),
                "tasks": usual.tasks.model_copy(update=self.beyond),
                "repo": {**usual.repo, **repos},
                "agent": {**usual.agent, **agents},
            }
        )

    def _repo(self, plot: Plot) -> Repo:
        agent = plot.name if plot.agent else "helper"
        given = {"agent": agent, "allowed_users": [ALICE, BOB], **plot.repo}
        return Repo(owner=ALICE, name=plot.name, **given)

    def of(self, name: str, login: str = ALICE) -> Person:
        """Somebody in a plot's repository."""
        return self.person(login, f"{ALICE}/{name}")

    def file(self, name: str) -> int:
        """An issue about the work that every agent here is asked for."""
        return self.of(name).file("Notes", "agent:small-job")

    def file_through_a_storm(self, name: str) -> int:
        """The same without a request that could fail."""

        def plant(world: World) -> int:
            repo = world.repo(f"{ALICE}/{name}")
            assert repo is not None
            return Seeder(world).issue(repo, "Notes", ALICE, labels=("agent:small-job",)).number

        return self.hub.do(plant)

    def control(self, path: str, **values: Any) -> None:
        """What GitHub's own people can do."""
        answer = self.hub.control.post(path, json=values)
        assert answer.is_success, answer.text

    @contextmanager
    def on_a_road(self) -> Iterator[Road]:
        """Our service reaches GitHub by a road that can be closed; people do not need it."""
        road = Road(self.hub.url)
        self.hub.do(lambda world: setattr(world, "root", road.url))
        self.road = road.url
        try:
            yield road
        finally:
            road.close()

    def said(self, name: str, number: int) -> list[str]:
        """What we said on an issue, its status first."""
        comments = self.of(name).comments(number)
        bodies = [one["body"] for one in comments if one["user"]["login"] == US]
        return sorted(bodies, key=lambda body: "**Hostler**" not in body)


MakeTown = Callable[..., RoughTown]


def task_in(service: Service, project: str) -> Task | None:
    """The newest task of a repository."""
    found = [task for task in service.all_tasks() if task.project == project]
    return found[-1] if found else None


def settle(service: Service, *projects: str, seconds: float = 60.0) -> dict[str, Task]:
    """Until no agent is needed for any of them by itself, and nothing is on its way."""
    service.poll()

    def seen() -> dict[str, Task] | None:
        newest = {task.project: task for task in service.all_tasks() if task.project in projects}
        rested = all(task.state in AT_REST for task in newest.values())
        return newest if rested and len(newest) == len(set(projects)) else None

    tasks = service.until(seen, f"{projects} to rest", seconds)
    service.rested()
    return {name: task_in(service, name) or task for name, task in tasks.items()}


def in_state(service: Service, project: str, state: TaskState) -> Callable[[], bool]:
    """Whether the task of a repository has come there."""

    def seen() -> bool:
        task = task_in(service, project)
        return task is not None and task.state is state

    return seen


def written(service: Service) -> bool:
    """Whether nothing waits to be written to GitHub."""
    with service.app.store.read() as tx:
        return not open_writes(tx)


def require_no_defect(service: Service) -> None:
    """Nothing was met that nobody had thought of."""
    log = service.lines.getvalue()
    assert "Traceback" not in log and "service_defect" not in log, log[-6000:]
    assert not any("efect" in line for line in service.told), service.told


def python(code: str) -> dict[str, Any]:
    """An agent that is a little program."""
    return {"kind": "command", "command": [sys.executable, "-I", "-S", "-c", code]}


class Gate:
    """Where an agent waits until it is let through."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"gate-{name}"
        os.mkfifo(self.path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While an agent waits at the gate: begins when it is there, ends by letting it go on."""
        with self.path.open("w"):
            yield

    def agent(self) -> dict[str, Any]:
        """An agent that goes through this gate in each of its turns, and then works."""
        script = self.path.with_suffix(".toml")
        script.write_text(GATED.format(gate=self.path))
        return {"kind": "scripted", "script": str(script)}


GATED = """
version = 1

[[scene]]
when = {{ flow = "feedback" }}
steps = [
  {{ run = ["cat", "{gate}"] }},
  {{ append = {{ path = "notes.md", text = "More\\n" }} }},
  {{ result = {{ status = "done", reply_each = "Done." }} }},
]

[[scene]]
steps = [
  {{ run = ["cat", "{gate}"] }},
  {{ write = {{ path = "notes.md", text = "Notes\\n" }} }},
  {{ result = {{ status = "done", summary = "Wrote notes.", pr_title = "Add notes" }} }},
]
"""
