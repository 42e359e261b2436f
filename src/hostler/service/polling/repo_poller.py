"""Poll one repository: fill the inbox, ingest it, execute operator commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hostler.errors import GitHubPollingError
from hostler.forge.github.polling.context import PollContext, PollMetrics
from hostler.forge.github.polling.cursors import PollWindow
from hostler.forge.github.polling.poller import Poller, PollPlan, ScanResult
from hostler.forge.outbox.sender import OUTBOX_SCOPE as OUTBOX
from hostler.forge.port import Forge
from hostler.intake.decisions import IssuePreview, fetch_open_issues, preview_issues
from hostler.intake.model import EVENT_KINDS
from hostler.intake.process import ProcessResult
from hostler.intake.repo_policy import RepoPolicy, build_repo_policy
from hostler.model import RepoName
from hostler.service.context import AppContext, StepObserver, ignore_step
from hostler.service.operator_commands.executor import CommandExecutor
from hostler.service.operator_commands.targets import CommandContext
from hostler.service.repositories import RepoContexts
from hostler.store.inbox import rows_to_look_at
from hostler.store.tasks import SCOPE as TASKS
from hostler.telemetry.logs import EventLog
from hostler.workflows.effects import handle_settled_write
from hostler.workflows.ingest import ingest_events, refresh_dependencies


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one look at a repository came to."""

    scanned: ScanResult = field(default_factory=ScanResult)
    taken: ProcessResult = field(default_factory=ProcessResult)
    # Some of it could not be read, or all of it.
    error: GitHubPollingError | None = None

    @property
    def partly(self) -> bool:
        """Whether it failed, but not as a whole."""
        return self.error is not None and self.scanned.error is not None


class RepoPoller:
    """Looks at one repository; never twice at the same time."""

    def __init__(
        self,
        house: AppContext,
        desks: RepoContexts,
        watch: RepoPolicy,
        window: PollWindow,
        observe: StepObserver = ignore_step,
        log: EventLog | None = None,
    ) -> None:
        self.watch = watch
        self._house = house
        self._desks = desks
        self._observe = observe
        self._poller = Poller(self._tap(window, log), _build_poll_plan(house, watch.project))
        self._operator = CommandExecutor(CommandContext(house, watch), log)
        # Where the database stood when nothing was worth a look; None: look again.
        self._heard: int | None = None
        self._active = False

    @property
    def forge(self) -> Forge:
        """The repository on GitHub."""
        return self._house.hub.repo(self.watch.repo)

    def look(self) -> PollResult:
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
        return PollResult(scanned, taken, error)

    def stretch(self) -> float:
        """By how much the pause to the next look is longer: where GitHub's limits are near."""
        return poll_stretch(self._house.hub, self.watch.repo, active=self._active)

    def _polled(self) -> tuple[ScanResult, GitHubPollingError | None]:
        try:
            scanned = self._poller.poll()
        except GitHubPollingError as error:
            return ScanResult(active=self._active), error
        self._active = scanned.active
        return scanned, scanned.error

    def _take_in(self) -> ProcessResult:
        """Hear what is in the inbox, if anything there is worth a look."""
        store = self._house.store
        # Before the look: whatever is committed meanwhile, by whomever, leads to another one.
        mark = store.change_mark()
        if self._heard == mark:
            return ProcessResult()
        with store.read() as tx:
            waiting = bool(rows_to_look_at(tx, self.watch.repo, EVENT_KINDS))
        self._heard = None if waiting else mark
        return ingest_events(store, self.forge, self.watch) if waiting else ProcessResult()

    def _tap(self, window: PollWindow, log: EventLog | None) -> PollContext:
        house = self._house
        interval = float(house.settings.runtime.poll_interval_seconds)
        return PollContext(
            house.store,
            self.forge,
            self.watch.repo,
            window,
            handle_settled_write,
            (OUTBOX, TASKS),
            log,
            PollMetrics(str(self.watch.repo), interval),
        )


class PollBudget(Protocol):
    """Who knows how much of GitHub's limits is left."""

    def stretch(self, active: bool, repo: RepoName | None = None) -> float:
        """By how much to stretch the pause between two looks at a repository, at least 1."""
        ...


def poll_stretch(hub: object, repo: RepoName, *, active: bool) -> float:
    """By how much a look waits longer, if the hub keeps a budget."""
    budget: PollBudget | None = getattr(hub, "budget", None)
    return 1.0 if budget is None else max(budget.stretch(active, repo), 1.0)


def _build_poll_plan(house: AppContext, project: str) -> PollPlan:
    """How a repository is polled, by the settings."""
    runtime, github = house.settings.runtime, house.settings.github
    repo = house.settings.repo[project]
    return PollPlan(
        feeds=runtime.feeds,
        incremental=runtime.enable_incremental_comment_fetch,
        idle_every=github.idle_feed_every_polls,
        runs=repo.pr_actions_feedback_policy != "never",
        operations=repo.operations_issue_number,
    )


def preview_repository(house: AppContext, project: str) -> list[IssuePreview]:
    """The decisions about all open issues of a repository. Writes nothing."""
    repo = house.settings.repo[project]
    looked = fetch_open_issues(
        house.hub.repo(RepoName(repo.owner, repo.name)), eyes := build_repo_policy(project, repo)
    )
    with house.store.read() as tx:
        return preview_issues(tx, eyes, looked)
