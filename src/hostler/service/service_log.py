"""Log events of the service, and the lines that it prints at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hostler.config.loader import SettingsChange
from hostler.errors import ConfigError, HostlerError
from hostler.model import RepoName
from hostler.runs import RecoveredRun
from hostler.service.polling.orchestrator import FinishedPoll, poll_error_cause
from hostler.service.running.budgets import BudgetUsage
from hostler.service.scheduling.gates import DISK_FULL_REMEDY
from hostler.service.scheduling.workers import GlobalWorkLimiter, WorkerJob
from hostler.store.operator import Notice, NoticeState
from hostler.store.outbox import OutboxRow
from hostler.store.runs import Run
from hostler.store.tasks import Task
from hostler.telemetry import names
from hostler.telemetry.logs import EventLog
from hostler.telemetry.metrics import metrics

PrintLine = Callable[[str], None]
_DRAIN_EVENTS = {
    "started": names.SERVICE_RESTART_DRAIN_STARTED,
    "progress": names.SERVICE_RESTART_DRAIN_PROGRESS,
    "completed": names.SERVICE_RESTART_DRAIN_COMPLETED,
    "timeout": names.SERVICE_RESTART_DRAIN_TIMEOUT,
}


_BREAKER_TEXTS = {
    "open": "the provider refuses too often; no agents start for a while.",
    "half-open": "one agent tests whether the provider answers again.",
    "closed": "the provider answers; agents start again.",
}
# Stored instead of an error text while the request budget holds polls back.
_HELD_BY_BUDGET = "held"


class ServiceLog:
    """Log events of the service, and lines for the terminal (`tell`)."""

    def __init__(
        self,
        log: EventLog,
        tell: PrintLine = lambda _: None,
        reloaded: Callable[[], None] = lambda: None,
    ) -> None:
        """`reloaded` is called after the settings were read again, successfully or not."""
        self._log = log
        self._tell = tell
        self._reloaded = reloaded
        self._failing: dict[str, str] = {}
        self._renamed: dict[str, RepoName] = {}
        self._said: dict[str, dict[str, int]] = {}
        self._wide: set[tuple[str, str]] = set()
        self._refused = ""
        self._prompts: set[tuple[str, str]] = set()
        self._capacity: tuple[int, int] | None = None
        self._full = False

    @property
    def log(self) -> EventLog:
        """The event log, for events of other modules."""
        return self._log

    def started(self, home: object, repos: int, workers: int) -> None:
        self._log.event(names.SERVICE_STARTED, home=str(home), repos=repos, workers=workers)

    def spent(self, task: str, usage: BudgetUsage) -> None:
        """Log that a budget is low or used up."""
        used, limit = round(usage.spent.usd, 4), usage.limit
        self._log.event(
            names.BUDGET_LOW, task=task, setting=usage.setting, used_usd=used, limit_usd=limit
        )
        self._tell(f"{task}: {usage.sentence}")

    def called(self, notice: Notice) -> None:
        """Log the result of a notification."""
        result = "later" if notice.state is NoticeState.QUEUED else notice.state.value
        metrics.count(names.NOTICES, 1, occasion=notice.occasion, result=result)
        if notice.state is NoticeState.SENT:
            self._log.event(names.NOTICE_SENT, occasion=notice.occasion, key=notice.key)
        elif notice.state is NoticeState.FAILED:
            why = notice.last_error
            self._log.event(names.NOTICE_FAILED, occasion=notice.occasion, key=notice.key, why=why)
            self._tell(f"Notification failed ({notice.occasion}): {why}.")

    def left(self, *, agents: int) -> None:
        self._log.event(names.SERVICE_LEFT, agents=agents)

    def poll_finished(self, poll: FinishedPoll, counts: Mapping[str, int]) -> None:
        """Log a finished poll. A repeated error is printed once."""
        if poll.error is None:
            self._saw(poll, counts)
        elif poll.held:
            self._held_back(str(poll.watch.repo), poll_error_cause(poll.error))
        else:
            self._unseen(str(poll.watch.repo), poll.error, poll.failures)

    def _saw(self, poll: FinishedPoll, counts: Mapping[str, int]) -> None:
        """Log a complete poll."""
        assert poll.found is not None
        repo, scanned, taken = str(poll.watch.repo), poll.found.scanned, poll.found.taken
        facts = {"new": len(taken.events), "changed": len(taken.changed), **counts}
        # Log only changes: an idle repository would fill the log.
        if self._said.get(repo) != facts:
            self._said[repo] = facts
            log = self._log.bind(**facts)
            log.event(names.SERVICE_REPO_POLLED, repo=repo, requests=scanned.requests)
        self._failing.pop("", None)
        if self._failing.pop(repo, None):
            self._tell(f"{repo}: reached again.")
        self._tell_name(poll, scanned.renamed_to)

    def _held_back(self, repo: str, error: Exception) -> None:
        """Log that the request budget holds polls back, once when this begins."""
        if self._failing.get(repo) != _HELD_BY_BUDGET:
            self._failing[repo] = _HELD_BY_BUDGET
            self._log.event(names.REPO_POLL_HELD, repo=repo, why=str(error))
            self._tell(f"{repo}: {_error_text(error)}")

    def _unseen(self, repo: str, error: Exception, failures: int) -> None:
        """Log a failed or incomplete poll."""
        known = isinstance(error, HostlerError)
        self._log.event(
            names.REPO_POLL_FAILED,
            error=None if known else error,
            repo=repo,
            why=str(error),
            failures=failures,
        )
        self._tell_once(repo, repo, poll_error_cause(error))

    def _tell_once(self, of: str, name: str, error: BaseException) -> None:
        """Print an error, unless it was the last one of this object."""
        told = _error_text(error)
        if self._failing.get(of) != told:
            self._failing[of] = told
            self._tell(f"{name}: {told}")

    def _tell_name(self, poll: FinishedPoll, present: RepoName | None) -> None:
        """Print once that a repository was renamed."""
        repo = str(poll.watch.repo)
        if present is not None and self._renamed.get(repo) != present:
            self._renamed[repo] = present
            where = f"[repo.{poll.project}]"
            self._tell(f"{repo} is now {present}: change its name in {where}, and keep that id.")

    def capacity(self, limiter: GlobalWorkLimiter) -> None:
        """Log how many workers are busy, if that has changed."""
        found = (limiter.in_flight(), limiter.capacity())
        if found != self._capacity:
            self._capacity = found
            log = self._log.bind(capacity=found[1])
            log.event(names.SERVICE_GLOBAL_CAPACITY, in_flight=found[0])

    def full(self, why: str) -> None:
        """Report once that a disk is full, and once that it no longer is.

        `why` is empty if no disk is full.
        """
        before, self._full = self._full, bool(why)
        if why and not before:
            self._log.event(names.DISK_LOW, why=why)
            self._tell(f"{why} {DISK_FULL_REMEDY}")
        elif before and not why:
            self._log.event(names.DISK_FREE)
            self._tell("Disk space is free again; work continues.")

    def drain(self, act: str, pending: int, seconds: float) -> None:
        """Log the progress of a drain."""
        self._log.event(_DRAIN_EVENTS[act], pending=pending, seconds=round(seconds, 3))
        many = f"{pending} task{'' if pending == 1 else 's'} running"
        if act == "started":
            self._tell(f"Restart requested: no new work starts, {many}.")
        elif act == "timeout":
            self._tell(f"Not restarted: {many} after {seconds:.0f} s. Work continues.")

    def restarted(self, version: str, by: str) -> None:
        self._log.event(names.SERVICE_RESTARTED, version=version, requested_by=by)
        self._tell(f"Restarted: Hostler {version}.")

    def restart_failed(self, why: str) -> None:
        self._log.event(names.SERVICE_RESTART_FAILED, why=why)
        self._tell(f"The restart failed. {why}")

    def updating(self, step: str, code: int | None, output: str) -> None:
        """Log a finished command of an update; code None: it timed out."""
        self._log.event(names.SERVICE_UPDATE, step=step, exit_code=code, output=output)

    def settings_changed(self, change: SettingsChange) -> None:
        """Log changed settings, and those that need a restart."""
        taken, waiting = ", ".join(change.taken), ", ".join(change.waiting)
        self._refused = ""
        self._log.event(names.SERVICE_SETTINGS_CHANGED, taken=taken, waiting=waiting)
        self._tell(f"Settings reloaded: {taken or 'nothing else'} changed.")
        if waiting:
            self._tell(f"Effective after a restart: {waiting}.")
        self._reloaded()

    def settings_refused(self, error: HostlerError) -> None:
        """Log once that a settings file has mistakes and was not applied."""
        words = " ".join(error.lines())
        if words != self._refused:
            self._refused = words
            self._log.event(names.SERVICE_SETTINGS_REFUSED, why=words)
            self._tell(f"Settings not reloaded. {words}")
        self._reloaded()

    def admitted(self, task: Task, run: Run | None) -> None:
        self._log.event(
            names.TASK_ADMITTED,
            task=task.id,
            run=run.run if run else "",
            kind=run.kind if run else "finishing",
            agent=run.agent if run else "",
            attempt=task.attempt,
        )

    def adopted(self, found: RecoveredRun) -> None:
        run = found.run
        self._log.event(
            names.RUN_ADOPTED,
            task=run.task_id,
            run=run.run,
            state=run.state.value,
            action=found.decision.action.value,
        )

    def ended(self, job: WorkerJob) -> None:
        self._failing.pop(job.name, None)
        self._log.event(names.WORK_ENDED, name=job.name, project=job.project)

    def troubled(self, job: WorkerJob, error: BaseException) -> None:
        """Log that a worker failed. It is retried, unless another process has the run."""
        known = isinstance(error, HostlerError)
        self._log.event(
            names.WORK_TROUBLED,
            error=None if known else error,
            name=job.name,
            project=job.project,
            why=str(error),
            tries=job.tries,
        )
        self._tell_once(job.name, job.project, error)

    def broke(self, error: BaseException) -> None:
        """Log an error of the service itself, or a defect."""
        if isinstance(error, HostlerError):
            self._log.event(names.SERVICE_TROUBLED, why=str(error))
            self._tell_once("", "Hostler", error)
            return
        self._log.event(names.SERVICE_DEFECT, error=error)
        self._tell(f"Defect: {error!r}. See the log for details.")

    def cleaned(self, task: Task, error: HostlerError | None) -> None:
        """Log that a checkout was removed, or why it is kept."""
        if error is None:
            self._log.event(names.CHECKOUT_CLEANED, task=task.id)
        else:
            self._log.event(names.CHECKOUT_KEPT, task=task.id, why=str(error))

    def prompt_refused(self, repo: str, why: str) -> None:
        """Log once that a repository's own prompt cannot be used."""
        if (repo, why) not in self._prompts:
            self._prompts.add((repo, why))
            self._log.event(names.PROMPT_REFUSED, repo=repo, why=why)
            self._tell(f"{repo}: {why} Using the built-in prompt.")

    def webhook_answered(self, status: int) -> None:
        """Count an answered webhook."""
        metrics.count(names.WEBHOOK_DELIVERIES, answer=str(status))

    def never_seen(self, row: OutboxRow, looks: int) -> None:
        """Log that GitHub accepted a write which cannot be found there."""
        self._log.event(
            names.TOKEN_RECONCILE_TIMEOUT,
            repo=row.repo_full_name,
            token=row.token,
            number=row.scope_number,
            looks=looks,
        )

    def lost(self, task: Task) -> None:
        self._log.event(names.TASK_FOUND_LOST, task=task.id, project=task.project)

    def share_warning(self, key: tuple[str, str], words: str | None) -> None:
        """Log once that a project may run more than its share of a pool."""
        if words is None:
            self._wide.discard(key)
        elif key not in self._wide:
            self._wide.add(key)
            self._log.event(names.PROJECT_TOO_WIDE, pool=key[0], project=key[1], why=words)

    def cap_changed(self, pool: str, before: int, cap: int, events: int) -> None:
        """Log a changed cap."""
        self._log.event(
            names.GOVERNOR_CAP_CHANGED, pool=pool, before=before, cap=cap, rate_limit_events=events
        )

    def breaker_changed(self, pool: str, state: str) -> None:
        """Log a changed circuit breaker."""
        self._log.event(names.GOVERNOR_BREAKER_CHANGED, pool=pool, state=state)
        self._tell(f"Pool {pool}: {_BREAKER_TEXTS[state]}")

    def damaged(self, pool: str) -> None:
        """Log that the stored state of a pool is damaged."""
        self._log.event(names.GOVERNOR_DAMAGED, pool=pool)
        self._tell(
            f"Pool {pool}: its learned state is damaged. Few or no agents start for a while. "
            f"Reset it with: hostler governor reset --provider {pool}"
        )

    def stopping(self, run: Run, why: str) -> None:
        self._log.event(names.RUN_STOP_ASKED, run=run.run, task=run.task_id, why=why)


def _error_text(error: BaseException) -> str:
    if isinstance(error, ConfigError):
        # List the mistakes, not only that there are some.
        return " ".join(error.lines())
    if isinstance(error, HostlerError):
        return " ".join(part for part in (error.what, error.remedy) if part)
    return repr(error)
