"""One look at a repository, on an I/O thread: GitHub into the inbox, the inbox into tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hostler.errors import GitHubPollingError
from hostler.flows import refresh_dependencies, settled, take_in
from hostler.forge import Forge, Meter, Plan, Poller, Scanned, Tap, Window
from hostler.forge.feeds.inbox import HEARD
from hostler.forge.outbox.sender import SCOPE as OUTBOX
from hostler.intake import Taken, Watch
from hostler.model import RepoName
from hostler.service.desks import Desks
from hostler.service.house import House
from hostler.service.observing import Observer, nobody
from hostler.service.operating import Operator
from hostler.service.verb_targets import Post
from hostler.store.inbox import rows_to_look_at
from hostler.store.tasks import SCOPE as TASKS
from hostler.telemetry.logs import Log


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look at a repository came to."""

    scanned: Scanned = field(default_factory=Scanned)
    taken: Taken = field(default_factory=Taken)
    # Some of it could not be read, or all of it.
    error: GitHubPollingError | None = None

    @property
    def partly(self) -> bool:
        """Whether it failed, but not as a whole."""
        return self.error is not None and self.scanned.error is not None


class Looker:
    """Looks at one repository; never twice at the same time."""

    def __init__(
        self,
        house: House,
        desks: Desks,
        watch: Watch,
        window: Window,
        observe: Observer = nobody,
        log: Log | None = None,
    ) -> None:
        self.watch = watch
        self._house = house
        self._desks = desks
        self._observe = observe
        self._poller = Poller(self._tap(window, log), plan_of(house, watch.project))
        self._operator = Operator(Post(house, watch), log)
        # Where the database stood when nothing was worth a look; None: look again.
        self._heard: int | None = None
        self._active = False

    @property
    def forge(self) -> Forge:
        """The repository on GitHub."""
        return self._house.hub.repo(self.watch.repo)

    def look(self) -> Looked:
        """One look. What could be heard is heard, whatever GitHub does not tell now."""
        project, house = self.watch.project, self._house
        self._desks.of(project)
        scanned, error = self._polled()
        self._observe("scanned", project)
        taken = self._take_in()
        self._observe("heard", project)
        self._operator.obey(taken)
        others = [RepoName(repo.owner, repo.name) for repo in house.settings.repo.values()]
        if error is None:
            refresh_dependencies(house.store, house.hub.repo, self.watch, others)
        return Looked(scanned, taken, error)

    def stretch(self) -> float:
        """By how much the pause to the next look is longer: where GitHub's limits are near."""
        return stretch_of(self._house.hub, self.watch.repo, active=self._active)

    def _polled(self) -> tuple[Scanned, GitHubPollingError | None]:
        try:
            scanned = self._poller.poll()
        except GitHubPollingError as error:
            return Scanned(active=self._active), error
        self._active = scanned.active
        return scanned, scanned.error

    def _take_in(self) -> Taken:
        """Hear what is in the inbox, if anything there is worth a look."""
        store = self._house.store
        # Before the look: whatever is committed meanwhile, by whomever, leads to another one.
        mark = store.change_mark()
        if self._heard == mark:
            return Taken()
        with store.read() as tx:
            waiting = bool(rows_to_look_at(tx, self.watch.repo, HEARD))
        self._heard = None if waiting else mark
        return take_in(store, self.forge, self.watch) if waiting else Taken()

    def _tap(self, window: Window, log: Log | None) -> Tap:
        house = self._house
        interval = float(house.settings.runtime.poll_interval_seconds)
        return Tap(
            house.store,
            self.forge,
            self.watch.repo,
            window,
            settled,
            (OUTBOX, TASKS),
            log,
            Meter(str(self.watch.repo), interval),
        )


class Stretching(Protocol):
    """Who knows how much of GitHub's limits is left."""

    def stretch(self, active: bool, repo: RepoName | None = None) -> float:
        """By how much to stretch the pause between two looks at a repository, at least 1."""
        ...


def stretch_of(hub: object, repo: RepoName, *, active: bool) -> float:
    """By how much a look waits longer, if the hub keeps a budget."""
    budget: Stretching | None = getattr(hub, "budget", None)
    return 1.0 if budget is None else max(budget.stretch(active, repo), 1.0)


def plan_of(house: House, project: str) -> Plan:
    """How a repository is polled, by the settings."""
    runtime, github = house.settings.runtime, house.settings.github
    repo = house.settings.repo[project]
    return Plan(
        feeds=runtime.feeds,
        incremental=runtime.enable_incremental_comment_fetch,
        idle_every=github.idle_feed_every_polls,
        runs=repo.pr_actions_feedback_policy != "never",
        operations=repo.operations_issue_number,
    )
