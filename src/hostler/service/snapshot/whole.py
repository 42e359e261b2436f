"""The snapshot itself: one read transaction, bounded rows, no call to anybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hostler.config.settings import Settings
from hostler.forge.budget.costs import Plan
from hostler.governor import status as governor_status
from hostler.governor.status import Status
from hostler.model import RepoName, stamp
from hostler.service.presence import Presence
from hostler.service.snapshot.at_work import Activity, AtWork, agents_at_work
from hostler.service.snapshot.costs import Money, github_plan, money, plan_json
from hostler.service.snapshot.expecting import Busy as AtPlace
from hostler.service.snapshot.feeds import feeds_read
from hostler.service.snapshot.history import Histories, History
from hostler.service.snapshot.needy import PERSON, Needy, needy_tasks
from hostler.service.snapshot.objectives import Objective, objectives
from hostler.service.snapshot.polls import PollLag, poll_lags
from hostler.service.snapshot.pulls import Followed, followed_pulls
from hostler.service.snapshot.queue import Queued, queued_tasks
from hostler.service.snapshot.repositories import Busy, Watched, watched_repositories
from hostler.service.space import sentence, too_full
from hostler.service.why import Inquiry
from hostler.store import Transaction
from hostler.store.operator import Pause, all_pauses
from hostler.store.outbox import open_writes
from hostler.store.tasks import TaskState, count_states

# No list of a snapshot for programs is longer; how many there are stands beside it.
MOST = 500


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a face shows, as it was at one moment."""

    now: datetime
    settings: Settings
    presence: Presence
    pauses: tuple[Pause, ...]
    at_work: tuple[AtWork, ...]
    counts: dict[TaskState, int]
    queue: tuple[Queued, ...]
    needy: tuple[Needy, ...]
    pulls: tuple[Followed, ...]
    repositories: tuple[Watched, ...]
    governor: Status
    history: History
    money: Money
    github: Plan
    unsent: int
    full: str = ""
    objectives: tuple[Objective, ...] = ()

    @property
    def needy_total(self) -> int:
        """How many need a person, shown or not."""
        by_state = sum(self.counts.get(state, 0) for state in PERSON)
        return by_state + sum(one.task.state not in PERSON for one in self.needy)

    def as_json(self) -> dict[str, Any]:
        """For programs. What is what, and what stays so: docs/snapshot.md."""
        web = self.settings.github.web_url
        return {
            "now": stamp(self.now),
            "service": self.presence.as_json(),
            "pauses": [
                {"scope": one.scope, "since": one.since, "by": one.by, "why": one.why}
                for one in self.pauses
            ],
            "at_work": [one.as_json(web) for one in self.at_work[:MOST]],
            "at_work_total": len(self.at_work),
            "tasks": {state.value: count for state, count in self.counts.items()},
            "queue": [one.as_json(web) for one in self.queue[:MOST]],
            "queue_total": len(self.queue),
            "needs_person": [one.as_json(web) for one in self.needy[:MOST]],
            "needs_person_total": self.needy_total,
            "pulls": [one.as_json(web) for one in self.pulls[:MOST]],
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


def snapshot(
    tx: Transaction, inquiry: Inquiry, activity: Activity, histories: Histories | None = None
) -> Snapshot:
    """Everything as it is now; `histories` keeps what need not be summed up again."""
    settings = inquiry.settings
    found, paused = agents_at_work(tx, activity), all_pauses(tx)
    past, lags = (histories or Histories()).at(tx), poll_lags(tx)
    governor = governor_status(tx, inquiry.policy, inquiry.here)
    queue = queued_tasks(tx, inquiry, _places(found), past.ended, governor.pools)
    pulls = followed_pulls(tx, settings)
    followed = [one.project for one in pulls]
    busy = Busy([one.run.project for one in found], [one.task.project for one in queue], followed)
    feeds = {
        project: feeds_read(tx, RepoName(repo.owner, repo.name))
        for project, repo in settings.repo.items()
    }
    return Snapshot(
        now=tx.now(),
        settings=settings,
        presence=inquiry.presence,
        pauses=tuple(paused.values()),
        at_work=found,
        counts=count_states(tx),
        queue=queue,
        needy=needy_tasks(tx),
        pulls=pulls,
        repositories=watched_repositories(settings, paused, busy, feeds, lags),
        governor=governor,
        history=past.windows,
        money=money(tx, settings.budget),
        github=github_plan(settings, followed),
        unsent=len(open_writes(tx)),
        full=_full(inquiry),
        objectives=objectives(_watched(settings, lags), past, tx.now()),
    )


def _places(found: Iterable[AtWork]) -> list[AtPlace]:
    """Who gives a place back; who has lent it has none."""
    holding = (one for one in found if one.run.lent_at is None)
    return [AtPlace(one.run.project, one.run.pool, one.seconds) for one in holding]


def _watched(settings: Settings, lags: Mapping[str, PollLag]) -> list[PollLag]:
    """Without those that nobody watches any more."""
    return [one for project, one in lags.items() if project in settings.repo]


def _full(inquiry: Inquiry) -> str:
    """Why nothing begins for want of room."""
    floor = inquiry.settings.runtime.disk_floor_mb
    room = too_full(inquiry.rooms, floor)
    return sentence(room, floor) if room is not None else ""
