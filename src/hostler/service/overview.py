"""The whole house at one moment: who works, what waits, and what needs a person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hostler.governor import Here, Policy
from hostler.governor import status as governor_status
from hostler.governor.status import Status
from hostler.model import parse_stamp
from hostler.planner import Blocker, hopeless_of
from hostler.service.next_steps import next_step
from hostler.service.portrait import seconds_of
from hostler.service.presence import Presence
from hostler.store import Transaction
from hostler.store.instants import age
from hostler.store.outbox import open_writes
from hostler.store.pauses import Pause, pauses
from hostler.store.runs import Run, live_runs
from hostler.store.task_counts import count_states
from hostler.store.tasks import Task, TaskState, find_task, tasks_in

# Nothing goes on with these before somebody acts.
PERSON = (TaskState.NEEDS_INPUT, TaskState.BLOCKED, TaskState.FAILED)


@dataclass(frozen=True, slots=True)
class AtWork:
    """An agent at work, and its task where that is still known."""

    run: Run
    task: Task | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Needy:
    """A task that needs a person: since when, why, and what to do."""

    task: Task
    seconds: float
    what: str
    then: str


@dataclass(frozen=True, slots=True)
class Overview:
    """What `hostler status` shows."""

    now: datetime
    presence: Presence
    pauses: tuple[Pause, ...]
    at_work: tuple[AtWork, ...]
    counts: dict[TaskState, int]
    needy: tuple[Needy, ...]
    governor: Status
    unsent: int
    full: str = ""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "service": self.presence.as_json(),
            "pauses": [
                {"scope": one.scope, "since": one.since, "by": one.by, "why": one.why}
                for one in self.pauses
            ],
            "at_work": [
                {
                    "task": one.run.task_id,
                    "run": one.run.run,
                    "agent": one.run.agent,
                    "state": one.run.state.value,
                    "seconds": one.seconds,
                    "lent": one.run.lent_at is not None,
                }
                for one in self.at_work
            ],
            "tasks": {state.value: count for state, count in self.counts.items()},
            "needs_person": [
                {
                    "task": one.task.id,
                    "state": one.task.state.value,
                    "seconds": one.seconds,
                    "what": one.what,
                    "then": one.then,
                }
                for one in self.needy
            ],
            "governor": self.governor.as_json(),
            "unsent_writes": self.unsent,
            "disk_full": self.full or None,
        }


def overview(
    tx: Transaction, presence: Presence, policy: Policy, here: Here, full: str = ""
) -> Overview:
    """Everything as it is now; `full`: why nothing begins for want of room."""
    now = tx.now()
    return Overview(
        now=now,
        presence=presence,
        pauses=tuple(pauses(tx).values()),
        at_work=tuple(
            AtWork(run, find_task(tx, run.task_id), seconds_of(run, now)) for run in live_runs(tx)
        ),
        counts=count_states(tx),
        needy=tuple(_needy(tx, now)),
        governor=governor_status(tx, policy, here),
        unsent=len(open_writes(tx)),
        full=full,
    )


def _needy(tx: Transaction, now: datetime) -> list[Needy]:
    """What needs a person, longest first: by its state, or by what it waits for."""
    stuck = {name: held[0] for name, held in hopeless_of(tx).items()}
    named = {task.id: task for task in tasks_in(tx, PERSON)}
    for name in stuck:
        task = find_task(tx, name)
        if task is not None:
            named.setdefault(name, task)
    found = [_told(task, stuck.get(task.id), now) for task in named.values()]
    return sorted(found, key=lambda one: (-one.seconds, one.task.id))


def _told(task: Task, stuck: Blocker | None, now: datetime) -> Needy:
    seconds = age(parse_stamp(task.state_since), now).total_seconds()
    if stuck is not None and task.state not in PERSON:
        return Needy(task, seconds, stuck.sentence, stuck.remedy)
    told = next_step(task)
    return Needy(task, seconds, told.what, told.then)
