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
from hostler.service.context import AppContext, StepHook, ignore_step
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
    """The result of one poll."""

    scanned: ScanResult = field(default_factory=ScanResult)
    taken: ProcessResult = field(default_factory=ProcessResult)
    # Set if some or all of it could not be read.
    error: GitHubPollingError | None = None

    @property
    def partly(self) -> bool:
        """Whether only some of it failed."""
        return self.error is not None and self.scanned.error is not None


class RepoPoller:
    """Polls one repository. Polls of one repository never overlap."""

    def __init__(
        self,
        app: AppContext,
        repo_contexts: RepoContexts,
        watch: RepoPolicy,
        window: PollWindow,
        observe: StepHook = ignore_step,
        log: EventLog | None = None,
    ) -> None:
        self.watch = watch
        self._app = app
        self._repo_contexts = repo_contexts
        self._observe = observe
        self._poller = Poller(self._tap(window, log), _build_poll_plan(app, watch.project))
        self._operator = CommandExecutor(CommandContext(app, watch), log)
        # The change mark at which the inbox was empty; None: read it again.
        self._heard: int | None = None
        self._active = False

    @property
    def forge(self) -> Forge:
        """The repository on GitHub."""
        return self._app.hub.repo(self.watch.repo)

    def poll(self) -> PollResult:
        """Poll once. Received events are processed even if some requests fail."""
        project, app = self.watch.project, self._app
        self._repo_contexts.of(project)
        scanned, error = self._polled()
        self._observe("scanned", project)
        taken = self._take_in()
        self._observe("heard", project)
        self._operator.execute_pending(taken)
        others = [RepoName(repo.owner, repo.name) for repo in app.settings.repo.values()]
        if error is None:
            refresh_dependencies(app.store, app.hub.repo, self.watch, others)
        return PollResult(scanned, taken, error)

    def stretch(self) -> float:
        """Return the factor for the pause to the next poll: above 1 near GitHub's limits."""
        return poll_stretch(self._app.hub, self.watch.repo, active=self._active)

    def _polled(self) -> tuple[ScanResult, GitHubPollingError | None]:
        try:
            scanned = self._poller.poll()
        except GitHubPollingError as error:
            return ScanResult(active=self._active), error
        self._active = scanned.active
        return scanned, scanned.error

    def _take_in(self) -> ProcessResult:
        """Process the inbox, if it has events."""
        store = self._app.store
        # Read the mark first: a commit during the read leads to another one.
        mark = store.change_mark()
        if self._heard == mark:
            return ProcessResult()
        with store.read() as tx:
            waiting = bool(rows_to_look_at(tx, self.watch.repo, EVENT_KINDS))
        self._heard = None if waiting else mark
        return ingest_events(store, self.forge, self.watch) if waiting else ProcessResult()

    def _tap(self, window: PollWindow, log: EventLog | None) -> PollContext:
        app = self._app
        interval = float(app.settings.runtime.poll_interval_seconds)
        return PollContext(
            app.store,
            self.forge,
            self.watch.repo,
            window,
            handle_settled_write,
            (OUTBOX, TASKS),
            log,
            PollMetrics(str(self.watch.repo), interval),
        )


class PollBudget(Protocol):
    """Knows how much of GitHub's limits is left."""

    def stretch(self, active: bool, repo: RepoName | None = None) -> float:
        """Return the factor for the pause between two polls, at least 1."""
        ...


def poll_stretch(hub: object, repo: RepoName, *, active: bool) -> float:
    """Return the factor for the pause, 1 if the hub has no request budget."""
    budget: PollBudget | None = getattr(hub, "budget", None)
    return 1.0 if budget is None else max(budget.stretch(active, repo), 1.0)


def _build_poll_plan(app: AppContext, project: str) -> PollPlan:
    """Return how the settings want a repository to be polled."""
    runtime, github = app.settings.runtime, app.settings.github
    repo = app.settings.repo[project]
    return PollPlan(
        feeds=runtime.feeds,
        incremental=runtime.enable_incremental_comment_fetch,
        idle_every=github.idle_feed_every_polls,
        runs=repo.pr_actions_feedback_policy != "never",
        operations=repo.operations_issue_number,
    )


def preview_repository(app: AppContext, project: str) -> list[IssuePreview]:
    """Return the decisions about all open issues of a repository. Writes nothing."""
    repo = app.settings.repo[project]
    looked = fetch_open_issues(
        app.hub.repo(RepoName(repo.owner, repo.name)), eyes := build_repo_policy(project, repo)
    )
    with app.store.read() as tx:
        return preview_issues(tx, eyes, looked)
