"""The snapshot: one read transaction, bounded rows, no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.forge.github.rate_limit.cost_model import CostPlan
from hostler.governor.holders import read_host
from hostler.governor.policy import read_policy
from hostler.governor.status import GovernorStatus
from hostler.governor.status import status as governor_status
from hostler.model import RepoName, format_timestamp
from hostler.service.context import Presence, read_presence
from hostler.service.scheduling.explain import ExplainInputs
from hostler.service.scheduling.gates import disk_full_text, find_full_disk, read_disk_space
from hostler.service.snapshot.activity import (
    NEEDS_PERSON_STATES,
    FollowedPull,
    LastActivity,
    RepoActivity,
    RunningAgent,
    TaskNeedingPerson,
    WatchedRepo,
    last_activity_reader,
    read_feed_progress,
    read_followed_pulls,
    read_running_agents,
    read_tasks_needing_person,
    summarize_repos,
)
from hostler.service.snapshot.history import (
    DailySpending,
    History,
    HistoryCache,
    Objective,
    PollLag,
    measure_objectives,
    plan_github_usage,
    plan_json,
    read_daily_spending,
    read_poll_lags,
)
from hostler.service.snapshot.queue import BusyAgent as AtPlace
from hostler.service.snapshot.queue import QueuedTask, read_queue
from hostler.store import Store, Transaction
from hostler.store.operator import Pause, all_pauses
from hostler.store.outbox import open_writes
from hostler.store.tasks import TaskState, count_states

# Maximum length of lists in JSON; totals are given beside them.
MAX_LISTED = 500


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that user interfaces show, at one time."""

    now: datetime
    settings: Settings
    presence: Presence
    pauses: tuple[Pause, ...]
    at_work: tuple[RunningAgent, ...]
    counts: dict[TaskState, int]
    queue: tuple[QueuedTask, ...]
    needy: tuple[TaskNeedingPerson, ...]
    pulls: tuple[FollowedPull, ...]
    repositories: tuple[WatchedRepo, ...]
    governor: GovernorStatus
    history: History
    money: DailySpending
    github: CostPlan
    unsent: int
    full: str = ""
    objectives: tuple[Objective, ...] = ()

    @property
    def needy_total(self) -> int:
        """The number of tasks that need a user, listed or not."""
        by_state = sum(self.counts.get(state, 0) for state in NEEDS_PERSON_STATES)
        return by_state + sum(one.task.state not in NEEDS_PERSON_STATES for one in self.needy)

    def as_json(self) -> dict[str, Any]:
        """For programs. What is what, and what stays so: docs/internals/snapshot.md."""
        web = self.settings.github.web_url
        return {
            "now": format_timestamp(self.now),
            "service": self.presence.as_json(),
            "pauses": [
                {"scope": one.scope, "since": one.since, "by": one.by, "why": one.why}
                for one in self.pauses
            ],
            "at_work": [one.as_json(web) for one in self.at_work[:MAX_LISTED]],
            "at_work_total": len(self.at_work),
            "tasks": {state.value: count for state, count in self.counts.items()},
            "queue": [one.as_json(web) for one in self.queue[:MAX_LISTED]],
            "queue_total": len(self.queue),
            "needs_person": [one.as_json(web) for one in self.needy[:MAX_LISTED]],
            "needs_person_total": self.needy_total,
            "pulls": [one.as_json(web) for one in self.pulls[:MAX_LISTED]],
            "pulls_total": len(self.pulls),
            "repositories": [one.as_json() for one in self.repositories],
            "governor": self.governor.as_json(),
            "history": {name: window.as_json() for name, window in self.history.items()},
            "cost": self.money.as_json(),
            "github": plan_json(self.github),
            "unsent_writes": self.unsent,
            "disk_full": self.full or None,
            "objectives": [one.as_json() for one in self.objectives],
        }


def read_snapshot(
    tx: Transaction,
    inputs: ExplainInputs,
    activity: LastActivity,
    histories: HistoryCache | None = None,
) -> Snapshot:
    """Read a snapshot. `histories` caches sums of the past."""
    settings = inputs.settings
    found, paused = read_running_agents(tx, activity), all_pauses(tx)
    past, lags = (histories or HistoryCache()).at(tx), read_poll_lags(tx)
    governor = governor_status(tx, inputs.policy, inputs.host)
    queue = read_queue(tx, inputs, _slot_holders(found), past.ended, governor.pools)
    pulls = read_followed_pulls(tx, settings)
    followed = [one.project for one in pulls]
    busy = RepoActivity(
        [one.run.project for one in found], [one.task.project for one in queue], followed
    )
    feeds = {
        project: read_feed_progress(tx, RepoName(repo.owner, repo.name))
        for project, repo in settings.repo.items()
    }
    return Snapshot(
        now=tx.now(),
        settings=settings,
        presence=inputs.presence,
        pauses=tuple(paused.values()),
        at_work=found,
        counts=count_states(tx),
        queue=queue,
        needy=read_tasks_needing_person(tx),
        pulls=pulls,
        repositories=summarize_repos(settings, paused, busy, feeds, lags),
        governor=governor,
        history=past.windows,
        money=read_daily_spending(tx, settings.budget),
        github=plan_github_usage(settings, followed),
        unsent=len(open_writes(tx)),
        full=_disk_full_text(inputs),
        objectives=measure_objectives(_watched_lags(settings, lags), past, tx.now()),
    )


def _slot_holders(found: Iterable[RunningAgent]) -> list[AtPlace]:
    """Return the agents that hold a slot."""
    holding = (one for one in found if one.run.slot_released_at is None)
    return [AtPlace(one.run.project, one.run.pool, one.seconds) for one in holding]


def _watched_lags(settings: Settings, lags: Mapping[str, PollLag]) -> list[PollLag]:
    """Return the lags of watched repositories."""
    return [one for project, one in lags.items() if project in settings.repo]


def _disk_full_text(inputs: ExplainInputs) -> str:
    """Return why a full disk prevents starts; empty if none does."""
    floor = inputs.settings.runtime.disk_floor_mb
    disk = find_full_disk(inputs.disks, floor)
    return disk_full_text(disk, floor) if disk is not None else ""


class SnapshotReader:
    """Reads snapshots of a home. Does not query GitHub and writes nothing."""

    def __init__(self, home: Path, settings: Settings, store: Store) -> None:
        self.home = home
        self.settings = settings
        self.store = store
        self._histories = HistoryCache()

    def read_inputs(self) -> ExplainInputs:
        """Read the inputs of explanations. Raises if the caps cannot be read."""
        return ExplainInputs(
            self.store,
            self.settings,
            read_policy(self.home, self.settings),
            read_host(),
            read_presence(self.home),
            read_disk_space(self.home),
        )

    def read(self) -> Snapshot:
        """Read a snapshot."""
        inputs = self.read_inputs()
        with self.store.read() as tx:
            return read_snapshot(tx, inputs, last_activity_reader(self.home), self._histories)
