"""The thread of calls: causes become rows, rows become calls. It keeps nobody waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta

from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.model import parse_stamp, stamp
from hostler.service.notify.address import Address, address_of
from hostler.service.notify.causes import OCCASIONS, worth_calling
from hostler.service.notify.posting import Refused, post
from hostler.service.notify.rules import LONGEST_WAIT, after
from hostler.service.notify.shapes import Call, shaped
from hostler.store import Store
from hostler.store.operator import (
    RESTART,
    Notice,
    NoticeState,
    add_notice,
    change_notice,
    find_operation,
    forget_notices,
    known_notices,
    queued_notices,
)
from hostler.store.tasks import tasks_in

SCOPE = "notices"
# Many commits in one second are one look.
LEAST_PAUSE = 1.0
PAUSE_AFTER_TROUBLE = 60.0
REMEMBERED = timedelta(days=90)
Post = Callable[[Address, Call], int]


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
        send: Post = post,
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

    def look(self) -> float | None:
        """Queue what is new, make the calls that are due; in how many seconds to look again."""
        self._queue()
        with self._store.read() as tx:
            waiting = queued_notices(tx)
        if not waiting:
            return None
        address = address_of(self._settings.notify, self._environment)
        if address is None:
            return None
        left = [one for one in waiting if not self._send(address, one)]
        return min((self._until(one) for one in left), default=LEAST_PAUSE)

    def _run(self) -> None:
        self._forget()
        while not self._leaving.is_set():
            # Cleared before looking: news that arrive meanwhile cause one more look.
            self._news.clear()
            seconds = self._looked()
            if not self._leaving.is_set():
                self._news.wait(seconds)
            self._leaving.wait(LEAST_PAUSE)

    def _looked(self) -> float | None:
        try:
            return self.look()
        except Exception as error:  # a busy database, a missing file, a defect: calls go on later
            self._troubled(error)
            return PAUSE_AFTER_TROUBLE

    def _forget(self) -> None:
        try:
            with self._store.write(SCOPE) as tx:
                forget_notices(tx, stamp(tx.now() - REMEMBERED))
        except HostlerError as error:
            self._troubled(error)

    def _queue(self) -> None:
        """Most looks find nothing new: they should not take the write lock."""
        notify, web = self._settings.notify, self._settings.github.web_url
        with self._store.read() as tx:
            tasks, restart = tasks_in(tx, tuple(OCCASIONS)), find_operation(tx, RESTART)
            found = worth_calling(tasks, restart, notify.events, web)
            known = known_notices(tx, [one.key for one in found])
        new = [one for one in found if one.key not in known]
        if new:
            with self._store.write(SCOPE) as tx:
                for one in new:
                    add_notice(tx, one)

    def _send(self, address: Address, notice: Notice) -> bool:
        """Make a call if it is due; whether it needs nothing more."""
        now = self._clock.now()
        if self._leaving.is_set() or self._until(notice) > 0:
            return False
        refused: Refused | None = None
        try:
            self._post(address, shaped(notice, self._settings.notify.shape, address.secret))
        except Refused as error:
            refused = error
        done = after(notice, refused, now)
        with self._store.write(SCOPE) as tx:
            values = {"attempts": done.attempts, "last_error": done.last_error}
            when = {"state": done.state.value, "not_before": done.not_before}
            change_notice(tx, notice.key, **values, **when)
        self._told(done)
        return done.state is not NoticeState.QUEUED

    def _until(self, notice: Notice) -> float:
        """Seconds until a call is due; a time beyond the longest wait is of another clock."""
        left = (parse_stamp(notice.not_before) - self._clock.now()).total_seconds()
        return left if 0 < left <= LONGEST_WAIT.total_seconds() else 0.0
