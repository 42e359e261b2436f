"""The edge of admission: one task and its run begin in one transaction, or nothing does."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.config.pools import DEFAULT_POOL, PoolCaps
from hostler.config.settings import Agent, Settings
from hostler.flows import begin_turn, gather, resume_finishing, turn_of
from hostler.runs import NewRun, admit
from hostler.service.candidates import WAITING, Choice, Place, Yard, choose, opening
from hostler.store import Store, Transaction
from hostler.store.pauses import ALL, Pause, pauses, project_scope
from hostler.store.runs import LIVE, Run, open_runs
from hostler.store.tasks import Task, TaskState, tasks_in

# The gates, the task's rows and the writes that tell people.
SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class Granted:
    """A task that has begun; without a run, only our own part of it is left to do."""

    task: Task
    run: Run | None


class Admission:
    """Admits tasks one by one. `ready`: projects that can work; `only`: just these tasks."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        pools: Mapping[str, PoolCaps],
        ready: Callable[[], Collection[str]],
        only: Collection[str] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._pools = pools
        self._ready = ready
        self._only = only
        self._turns = itertools.count(1)
        self._served: dict[str, int] = {}

    def next(self) -> Granted | None:
        """Admit whoever is next; None if nobody can start now."""
        # Most turns find nothing: they should not take the write lock.
        with self._store.read() as tx:
            if self._choose(tx).task is None:
                return None
        with self._store.write(*SCOPES) as tx:
            chosen = self._choose(tx).task
            granted = self._begin(tx, chosen) if chosen is not None else None
        if granted is not None:
            self._served[granted.task.project] = next(self._turns)
        return granted

    def opens_at(self) -> datetime | None:
        """When a task that waits for its time can be admitted."""
        with self._store.read() as tx:
            return opening(self._waiting(tx), tx.now())

    def _choose(self, tx: Transaction) -> Choice:
        return choose(self._waiting(tx), self._yard(tx))

    def _waiting(self, tx: Transaction) -> list[Task]:
        found = tasks_in(tx, WAITING)
        return [task for task in found if self._only is None or task.id in self._only]

    def _begin(self, tx: Transaction, task: Task) -> Granted:
        if task.finishing and task.state is TaskState.PARKED:
            return Granted(resume_finishing(tx, task), None)
        name, agent = agent_of(self._settings, task.project)
        begun = begin_turn(tx, task)
        new = NewRun(
            task_id=task.id,
            project=task.project,
            kind=turn_of(begun, gather(tx, begun)).value,
            agent=name,
            agent_kind=agent.kind,
            pool=pool_of(agent),
        )
        return Granted(begun, admit(tx, new))

    def _yard(self, tx: Transaction) -> Yard:
        found = open_runs(tx)
        live = [run for run in found if run.state in LIVE]
        # A stopped task keeps its place as long as its agent is there.
        busy = frozenset(run.task_id for run in found)
        limits = self._settings.tasks
        return Yard(
            now=tx.now(),
            places=self._places(pauses(tx)),
            busy=busy,
            per_project=Counter(run.project for run in live),
            per_pool=Counter(run.pool for run in live),
            runs=len(live),
            running=len(busy | {task.id for task in tasks_in(tx, (TaskState.RUNNING,))}),
            max_runs=limits.max_concurrent_runs,
            max_root_tasks=limits.max_concurrent_root_tasks,
            served=self._served,
            joins_first=timedelta(seconds=limits.waiting_joins_first_class_seconds),
        )

    def _places(self, paused: Mapping[str, Pause]) -> dict[str, Place]:
        ready = self._ready()
        places = (
            place_of(self._settings, self._pools, project, paused)
            for project in self._settings.repo
            if has_agent(self._settings, project)
        )
        return {place.project: replace(place, ready=place.project in ready) for place in places}


def has_agent(settings: Settings, project: str) -> bool:
    """Whether anybody works for a project."""
    named = settings.repo[project].agent
    return named in settings.agent if named else len(settings.agent) == 1


def agent_of(settings: Settings, project: str) -> tuple[str, Agent]:
    """Who works for a project: the one that it names, or the only one there is."""
    name = settings.repo[project].agent or next(iter(settings.agent))
    return name, settings.agent[name]


def pool_of(agent: Agent) -> str:
    """Whose limits an agent shares."""
    return agent.pool or _POOLS.get(agent.kind, agent.kind)


# Whose models a program uses, unless its settings say otherwise.
_POOLS = {"claude": DEFAULT_POOL, "codex": "openai", "gemini": "google"}


def place_of(
    settings: Settings,
    pools: Mapping[str, PoolCaps],
    project: str,
    paused: Mapping[str, Pause],
) -> Place:
    """Caps of a project, and whether somebody holds it."""
    repo = settings.repo[project]
    pool = pool_of(agent_of(settings, project)[1])
    caps = pools.get(pool)
    cap = caps.max_global_agents if caps and caps.max_global_agents else 0
    return Place(
        project=project,
        pool=pool,
        slots=repo.max_concurrent_slots,
        pool_cap=cap or settings.runtime.max_global_agents,
        paused=_paused(project, paused, in_settings=repo.paused),
    )


def _paused(project: str, paused: Mapping[str, Pause], *, in_settings: bool) -> str:
    if in_settings:
        return f"{project} is paused in the settings."
    for scope, what in ((ALL, "Everything"), (project_scope(project), project)):
        if scope in paused:
            held = paused[scope]
            return f"{what} was paused by {held.by}" + (f": {held.why}" if held.why else ".")
    return ""
