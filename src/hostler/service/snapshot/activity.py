"""Running agents, tasks that need a person, followed pull requests, watched repositories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.model import RepoName, format_timestamp, parse_timestamp
from hostler.planner.dependencies import Blocker
from hostler.planner.queue import read_hopeless
from hostler.service.scheduling.placement import paused_text
from hostler.service.snapshot.history import PollLag
from hostler.service.tasks.details import run_duration_seconds
from hostler.service.tasks.summary import build_github_url, describe_next_step, task_json
from hostler.store import Transaction
from hostler.store.operator import Pause
from hostler.store.pull_requests import PullRow, pulls_in
from hostler.store.repositories import cursors_at
from hostler.store.runs import Run, live_runs
from hostler.store.tasks import Task, TaskState, find_task, newest_in, titles_of
from hostler.store.transaction import age, not_after

# Output files of an agent.
STREAMS = ("stdout", "stderr")
# Returns when a run last wrote anything; None: unknown.
LastActivity = Callable[[Run], datetime | None]


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A running agent, and its task if it still exists. `active`: its last output."""

    run: Run
    task: Task | None
    seconds: float
    active: datetime | None
    idle_seconds: float | None

    def as_json(self, web_url: str) -> dict[str, Any]:
        """Return it as JSON."""
        run = self.run
        unknown = {"task": run.task_id, "project": run.project}
        return {
            **(task_json(self.task, web_url) if self.task else unknown),
            "run": run.run,
            "agent": run.agent,
            "pool": run.pool,
            "kind": run.kind,
            "attempt": run.attempt,
            "state": run.state.value,
            "seconds": self.seconds,
            "active_at": format_timestamp(self.active) if self.active else None,
            "idle_seconds": self.idle_seconds,
            "lent": run.slot_released_at is not None,
            "stopping": run.stop_why,
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "cached_tokens": run.cached_tokens,
            "usd": run.usd,
        }


def last_activity_reader(home: Path) -> LastActivity:
    """Return a function that reads when the output files of a run last changed."""

    def newest_change(run: Run) -> datetime | None:
        found = []
        for name in STREAMS:
            with suppress(OSError):
                found.append((home / run.folder / name).lstat().st_mtime)
        return datetime.fromtimestamp(max(found), UTC) if found else None

    return newest_change


def read_running_agents(tx: Transaction, activity: LastActivity) -> tuple[RunningAgent, ...]:
    """Read all live agents, longest first."""
    return tuple(_build_running(tx, live_runs(tx), activity))


def _build_running(
    tx: Transaction, runs: Iterable[Run], activity: LastActivity
) -> Iterable[RunningAgent]:
    now = tx.now()
    for run in runs:
        active = activity(run) or (parse_timestamp(run.running_at) if run.running_at else None)
        active = not_after(active, now) if active else None
        idle = age(active, now).total_seconds() if active else None
        yield RunningAgent(
            run, find_task(tx, run.task_id), run_duration_seconds(run, now), active, idle
        )


# Tasks in these states wait for a user.
NEEDS_PERSON_STATES = (TaskState.NEEDS_INPUT, TaskState.BLOCKED, TaskState.FAILED)
# At most this many are read per state, so that old failures do not slow the snapshot.
MAX_PER_STATE = 200


@dataclass(frozen=True, slots=True)
class TaskNeedingPerson:
    """A task that needs a user."""

    task: Task
    seconds: float
    what: str
    then: str

    def as_json(self, web_url: str) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            **task_json(self.task, web_url),
            "seconds": self.seconds,
            "question": self.task.question or None,
            "by_hand": self.task.by_hand,
            "what": self.what,
            "then": self.then,
        }


def read_tasks_needing_person(
    tx: Transaction, most: int = MAX_PER_STATE
) -> tuple[TaskNeedingPerson, ...]:
    """Read tasks that need a user, by state or blockers, longest first."""
    now = tx.now()
    stuck = {name: held[0] for name, held in read_hopeless(tx).items()}
    named = {task.id: task for state in NEEDS_PERSON_STATES for task in newest_in(tx, state, most)}
    for name in list(stuck)[:most]:
        task = find_task(tx, name)
        if task is not None:
            named.setdefault(name, task)
    found = [_build_needing_person(task, stuck.get(task.id), now) for task in named.values()]
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.task.id)))


def _build_needing_person(task: Task, stuck: Blocker | None, now: datetime) -> TaskNeedingPerson:
    seconds = age(parse_timestamp(task.state_since), now).total_seconds()
    if stuck is not None and task.state not in NEEDS_PERSON_STATES:
        return TaskNeedingPerson(task, seconds, stuck.sentence, stuck.remedy)
    told = describe_next_step(task)
    return TaskNeedingPerson(task, seconds, told.what, told.then)


@dataclass(frozen=True, slots=True)
class FollowedPull:
    """An open pull request of Hostler."""

    project: str
    pull: PullRow
    title: str

    def as_json(self, web_url: str) -> dict[str, Any]:
        """Return it as JSON."""
        pull = self.pull
        repo = pull.repo_full_name
        return {
            "project": self.project,
            "repo": repo,
            "pull": pull.pr_number,
            "pull_url": pull.url or build_github_url(web_url, repo, "pull", pull.pr_number),
            "issue": pull.issue_number or None,
            "issue_url": build_github_url(web_url, repo, "issues", pull.issue_number) or None,
            "task": pull.task,
            "title": self.title,
            "branch": pull.branch,
            "status": pull.status.value,
            "head_sha": pull.last_seen_head_sha,
            "turns_without_person": pull.turns_without_person,
        }


def read_followed_pulls(tx: Transaction, settings: Settings) -> tuple[FollowedPull, ...]:
    """Read the open pull requests of all watched repositories."""
    found = [
        (project, pull)
        for project, repo in settings.repo.items()
        for pull in pulls_in(tx, RepoName(repo.owner, repo.name))
    ]
    titles = titles_of(tx, [pull.task for _, pull in found])
    return tuple(FollowedPull(project, pull, titles.get(pull.task, "")) for project, pull in found)


# The scope of feeds of a whole repository.
REPO_SCOPE = 0


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """One feed, and its newest read change by GitHub's clock."""

    surface: str
    newest: str

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"surface": self.surface, "newest": self.newest}


def read_feed_progress(tx: Transaction, repo: RepoName) -> tuple[FeedProgress, ...]:
    """Read all feeds of a repository, by name."""
    found = cursors_at(tx, repo, REPO_SCOPE)
    read = (FeedProgress(str(name), one.last_updated_at) for name, one in found.items())
    return tuple(sorted(read, key=lambda one: one.surface))


@dataclass(frozen=True, slots=True)
class WatchedRepo:
    """One repository. `paused` is the reason of a pause, or empty."""

    project: str
    repo: str
    paused: str
    in_settings: bool
    weight: int
    width: int
    at_work: int
    queued: int
    pulls: int
    feeds: tuple[FeedProgress, ...] = ()
    lag: PollLag | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "project": self.project,
            "repo": self.repo,
            "paused": self.paused or None,
            "paused_in_settings": self.in_settings,
            "weight": self.weight,
            "max_concurrent_slots": self.width,
            "at_work": self.at_work,
            "queued": self.queued,
            "pulls": self.pulls,
            "feeds": [one.as_json() for one in self.feeds],
            "polls": self.lag.as_json() if self.lag else None,
        }


@dataclass(frozen=True, slots=True)
class RepoActivity:
    """Project names, one per running agent, waiting task and pull request."""

    at_work: Iterable[str] = ()
    queued: Iterable[str] = ()
    pulls: Iterable[str] = ()


def summarize_repos(
    settings: Settings,
    paused: Mapping[str, Pause],
    busy: RepoActivity,
    feeds: Mapping[str, tuple[FeedProgress, ...]],
    lags: Mapping[str, PollLag],
) -> tuple[WatchedRepo, ...]:
    """Return all repositories of the settings, in order."""
    at_work, queued, pulls = Counter(busy.at_work), Counter(busy.queued), Counter(busy.pulls)
    return tuple(
        WatchedRepo(
            project=project,
            repo=f"{repo.owner}/{repo.name}",
            paused=paused_text(project, paused, in_settings=repo.paused),
            in_settings=repo.paused,
            weight=repo.weight,
            width=repo.max_concurrent_slots,
            at_work=at_work[project],
            queued=queued[project],
            pulls=pulls[project],
            feeds=feeds.get(project, ()),
            lag=lags.get(project),
        )
        for project, repo in settings.repo.items()
    )
