"""Decide what people are notified of, once per cause, and send it from a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

from hostler.backoff import backoff
from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.model import format_timestamp, parse_timestamp
from hostler.service.notifications.delivery import (
    NotificationFailed,
    NotificationRequest,
    NotifyAddress,
    build_request,
    post_notification,
    read_address,
)
from hostler.store import Store
from hostler.store.operator import (
    RESTART,
    Notice,
    NoticeState,
    Operation,
    OperationStatus,
    add_notice,
    change_notice,
    find_operation,
    forget_notices,
    known_notices,
    queued_notices,
)
from hostler.store.tasks import Task, TaskState, tasks_in

# A shorter wait ends by itself before anybody has read of it.
MIN_PARKED_TIME = timedelta(minutes=10)
MAX_BODY_LENGTH = 1_500
OCCASION_BY_STATE = {
    TaskState.BLOCKED: "blocked",
    TaskState.NEEDS_INPUT: "needs_input",
    TaskState.PARKED: "parked",
}
_TITLES = {
    "blocked": "Blocked: {title}",
    "needs_input": "Your answer is needed: {title}",
    "parked": "Waiting: {title}",
}
RESTART_FAILED = "restart_failed"


def find_notices(
    tasks: Iterable[Task], restart: Operation | None, wanted: Collection[str], web_url: str
) -> list[Notice]:
    """The calls that the present state asks for, whether made already or not."""
    found = [notice for task in tasks if (notice := notice_for_task(task, web_url)) is not None]
    failed = notice_for_restart(restart) if restart is not None else None
    return [one for one in (*found, *([failed] if failed else [])) if one.occasion in wanted]


def notice_for_task(task: Task, web_url: str) -> Notice | None:
    """The call for a task that waits for somebody; none for a short wait."""
    occasion = OCCASION_BY_STATE.get(task.state)
    if occasion is None or (occasion == "parked" and not _is_long_wait(task)):
        return None
    said = task.question if occasion == "needs_input" else task.reason
    return Notice(
        key=f"{occasion}:{task.id}:{_cause_key(task)}",
        occasion=occasion,
        title=_TITLES[occasion].format(title=f"{task.title} ({_thread_name(task)})"),
        body=said.strip()[:MAX_BODY_LENGTH],
        url=_task_url(task, web_url),
    )


def notice_for_restart(operation: Operation) -> Notice | None:
    """The call for a restart that did not come about."""
    if operation.status is not OperationStatus.FAILED:
        return None
    return Notice(
        key=f"{RESTART_FAILED}:{operation.created_at}",
        occasion=RESTART_FAILED,
        title="The service was not restarted",
        body=operation.detail[:MAX_BODY_LENGTH],
    )


def _thread_name(task: Task) -> str:
    """Where a task is talked about."""
    number = task.pr_number or task.number
    return f"{task.repo_full_name}#{number}" if task.repo_full_name and number else task.id


def _task_url(task: Task, web_url: str) -> str:
    """A task's page on GitHub; none for one by hand."""
    number = task.pr_number or task.number
    if task.repo_full_name is None or not number:
        return ""
    kind = "pull" if task.pr_number else "issues"
    return f"{web_url.rstrip('/')}/{task.repo_full_name}/{kind}/{number}"


def _cause_key(task: Task) -> str:
    """What tells one cause from another: a wait that is repeated for one reason is one cause."""
    if task.state is not TaskState.PARKED:
        return task.state_since
    return f"{task.turn}:{sha256(task.reason.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _is_long_wait(task: Task) -> bool:
    if task.wake_at is None:
        return False
    return parse_timestamp(task.wake_at) - parse_timestamp(task.state_since) >= MIN_PARKED_TIME


MAX_ATTEMPTS = 6
MIN_RETRY_DELAY = timedelta(seconds=10)
MAX_RETRY_DELAY = timedelta(minutes=10)


def after_attempt(notice: Notice, failure: NotificationFailed | None, now: datetime) -> Notice:
    """A notice after one attempt to send it: sent, later, or given up."""
    tried = replace(notice, attempts=notice.attempts + 1)
    if failure is None:
        return replace(tried, state=NoticeState.SENT, last_error="")
    told = replace(tried, last_error=failure.why[:500])
    if not failure.retryable or tried.attempts >= MAX_ATTEMPTS:
        return replace(told, state=NoticeState.FAILED)
    delay = backoff(tried.attempts - 1, MIN_RETRY_DELAY, MAX_RETRY_DELAY)
    wait = max(delay, timedelta(seconds=failure.retry_after))
    return replace(told, not_before=format_timestamp(now + min(wait, MAX_RETRY_DELAY)))


NOTICE_SCOPE = "notices"
# Many commits in one second are one look.
MIN_PAUSE_SECONDS = 1.0
ERROR_PAUSE_SECONDS = 60.0
NOTICE_RETENTION = timedelta(days=90)
SendRequest = Callable[[NotifyAddress, NotificationRequest], int]


class Notifier:
    """Calls for people until it is told to leave. Without an address it does nothing."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        environment: Mapping[str, str],
        *,
        told: Callable[[Notice], None] = lambda _: None,
        troubled: Callable[[BaseException], None] = lambda _: None,
        send: SendRequest = post_notification,
    ) -> None:
        """`told`: hears what became of each call."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._environment = environment
        self._told = told
        self._troubled = troubled
        self._post = send
        self._news = clock.wakeup()
        self._leaving = clock.wakeup()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    @property
    def wanted(self) -> bool:
        """Whether anybody is to be called."""
        notify = self._settings.notify
        return bool(notify.url_env or notify.url_file)

    def start(self) -> None:
        """Begin to call."""
        if self.wanted:
            self._thread.start()

    def wake(self) -> None:
        """Something may have happened that is worth a call."""
        self._news.set()

    def leave(self, timeout: float) -> bool:
        """End; whether it has ended in time. A call that is cut off is made by the next service."""
        self._leaving.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def send_due(self) -> float | None:
        """Queue what is new, make the calls that are due; in how many seconds to look again."""
        self._queue()
        with self._store.read() as tx:
            waiting = queued_notices(tx)
        if not waiting:
            return None
        address = read_address(self._settings.notify, self._environment)
        if address is None:
            return None
        left = [one for one in waiting if not self._send(address, one)]
        return min((self._until(one) for one in left), default=MIN_PAUSE_SECONDS)

    def _run(self) -> None:
        self._forget()
        while not self._leaving.is_set():
            # Cleared before looking: news that arrive meanwhile cause one more look.
            self._news.clear()
            seconds = self._looked()
            if not self._leaving.is_set():
                self._news.wait(seconds)
            self._leaving.wait(MIN_PAUSE_SECONDS)

    def _looked(self) -> float | None:
        try:
            return self.send_due()
        except Exception as error:  # a busy database, a missing file, a defect: calls go on later
            self._troubled(error)
            return ERROR_PAUSE_SECONDS

    def _forget(self) -> None:
        try:
            with self._store.write(NOTICE_SCOPE) as tx:
                forget_notices(tx, format_timestamp(tx.now() - NOTICE_RETENTION))
        except HostlerError as error:
            self._troubled(error)

    def _queue(self) -> None:
        """Most looks find nothing new: they should not take the write lock."""
        notify, web = self._settings.notify, self._settings.github.web_url
        with self._store.read() as tx:
            tasks, restart = tasks_in(tx, tuple(OCCASION_BY_STATE)), find_operation(tx, RESTART)
            found = find_notices(tasks, restart, notify.events, web)
            known = known_notices(tx, [one.key for one in found])
        new = [one for one in found if one.key not in known]
        if new:
            with self._store.write(NOTICE_SCOPE) as tx:
                for one in new:
                    add_notice(tx, one)

    def _send(self, address: NotifyAddress, notice: Notice) -> bool:
        """Make a call if it is due; whether it needs nothing more."""
        now = self._clock.now()
        if self._leaving.is_set() or self._until(notice) > 0:
            return False
        failure: NotificationFailed | None = None
        try:
            self._post(address, build_request(notice, self._settings.notify.shape, address.secret))
        except NotificationFailed as error:
            failure = error
        done = after_attempt(notice, failure, now)
        with self._store.write(NOTICE_SCOPE) as tx:
            values = {"attempts": done.attempts, "last_error": done.last_error}
            when = {"state": done.state.value, "not_before": done.not_before}
            change_notice(tx, notice.key, **values, **when)
        self._told(done)
        return done.state is not NoticeState.QUEUED

    def _until(self, notice: Notice) -> float:
        """Seconds until a call is due; a time beyond the longest wait is of another clock."""
        left = (parse_timestamp(notice.not_before) - self._clock.now()).total_seconds()
        return left if 0 < left <= MAX_RETRY_DELAY.total_seconds() else 0.0
