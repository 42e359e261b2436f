"""Look for writes that were answered and that no poll has shown.

They are never sent again. A comment that was deleted, or that GitHub lost, is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hostler.backoff import backoff
from hostler.clock import Clock
from hostler.errors import ForgeError, RateLimited, Refused, Unauthorized
from hostler.forge.actions import decode_action
from hostler.forge.outbox.rules import MAX_WAIT, OutboxPolicy, lookup_since
from hostler.forge.outbox.sender import OUTBOX_SCOPE, ForgeLookup
from hostler.forge.port import ActionResult, Forge
from hostler.model import TokenStatus, format_timestamp, parse_timestamp
from hostler.store.outbox import OutboxRow, Unobserved, unobserved_write, unobserved_writes
from hostler.store.repositories import Repo
from hostler.store.store import Store
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import ACTION_TOKEN_UNOBSERVED_AGE

# Actions that create a text with our marker; polls show nothing of the others.
MARKED_KINDS = ("comment", "reply", "open_issue", "open_pull")
# After this many lookups it was probably deleted by a user.
MAX_LOOKUPS = 5
# Older writes are not looked for.
MAX_LOOKUP_AGE = timedelta(days=1)
# How many rows are read, and looked for, at once.
MAX_ROWS, MAX_LOOKUPS_PER_ROUND = 100, 10

LookupKey = tuple[str, str]
LookupTimedOut = Callable[[OutboxRow, int], None]


@dataclass(frozen=True, slots=True)
class LookupSchedule:
    """How often a write was looked for, and when the next time is."""

    lookups: int
    next_at: datetime


def first_lookup_at(posted_at: datetime, now: datetime, delay: timedelta) -> datetime:
    """Return when a write is first looked for; a post in the future was made by a wrong clock."""
    return min(posted_at, now) + delay


def next_lookup_at(lookups: int, now: datetime, delay: timedelta) -> datetime | None:
    """Return when to look again, later each time; None: never."""
    return None if lookups >= MAX_LOOKUPS else now + backoff(lookups, delay, timedelta.max)


def ignore_timeout(_row: OutboxRow, _lookups: int) -> None:
    """Do nothing."""


class WriteReconciler:
    """Looks for overdue writes. Keeps only the number of lookups in memory."""

    def __init__(
        self,
        store: Store,
        forges: ForgeLookup,
        clock: Clock,
        delay: timedelta,
        timed_out: LookupTimedOut = ignore_timeout,
        policy: OutboxPolicy | None = None,
    ) -> None:
        self._store = store
        self._forges = forges
        self._clock = clock
        self._delay = delay
        self._timed_out = timed_out
        self._pace = policy or OutboxPolicy()
        self._schedules: dict[LookupKey, LookupSchedule] = {}
        self._paused_until: datetime | None = None

    def find_due(self) -> datetime | None:
        """Look for all due writes. Return when to call again, or None if none is missing."""
        now = self._clock.now()
        if self._paused_until is not None and now < self._paused_until <= now + MAX_WAIT:
            return self._paused_until
        self._paused_until = None
        missing = self._list_missing(now)
        for found in [one for one in missing if self._due_at(one, now) <= now][
            :MAX_LOOKUPS_PER_ROUND
        ]:
            try:
                self._find(found)
            except ForgeError as error:
                self._paused_until = self._pause(error, now)
                return self._paused_until
        return min((self._due_at(one, now) for one in self._list_missing(now)), default=None)

    def _list_missing(self, now: datetime) -> list[Unobserved]:
        """Return writes that were not observed and are still looked for."""
        with self._store.read() as tx:
            rows = unobserved_writes(
                tx, MARKED_KINDS, format_timestamp(now - MAX_LOOKUP_AGE), MAX_ROWS
            )
        ages = [(now - parse_timestamp(row.posted_at)).total_seconds() for row in rows]
        metrics.set(ACTION_TOKEN_UNOBSERVED_AGE, max([*ages, 0.0]))
        keys = {_lookup_key(row) for row in rows}
        self._schedules = {key: one for key, one in self._schedules.items() if key in keys}
        return [row for row in rows if self._is_wanted(row)]

    def _is_wanted(self, row: Unobserved) -> bool:
        schedule = self._schedules.get(_lookup_key(row))
        given_up = schedule is not None and schedule.lookups >= MAX_LOOKUPS
        return not given_up and self._forges(row.repo) is not None

    def _due_at(self, row: Unobserved, now: datetime) -> datetime:
        schedule = self._schedules.get(_lookup_key(row))
        if schedule is not None:
            return schedule.next_at
        return first_lookup_at(parse_timestamp(row.posted_at), now, self._delay)

    def _find(self, found: Unobserved) -> None:
        with self._store.read() as tx:
            row = unobserved_write(tx, found)
        forge = self._forges(found.repo)
        if row is None or forge is None:
            return
        made = _find_write(forge, row, self._pace)
        if made is not None:
            self._observed(row, made)
            return
        lookups = (
            self._schedules[_lookup_key(found)].lookups + 1
            if _lookup_key(found) in self._schedules
            else 1
        )
        now = self._clock.now()
        self._schedules[_lookup_key(found)] = LookupSchedule(
            lookups, next_lookup_at(lookups, now, self._delay) or now
        )
        self._timed_out(row, lookups)

    def _observed(self, row: OutboxRow, made: ActionResult) -> None:
        with self._store.write(OUTBOX_SCOPE) as tx:
            repo = Repo(row.repo)
            token = repo.get_action_token(tx, row.token)
            if token is None or token.status is not TokenStatus.POSTED:
                return
            seen_at = made.updated_at or tx.stamp()
            repo.record_action_token_observed(
                tx, row.token, comment_id=made.id or made.number, updated_at=seen_at
            )

    def _pause(self, error: ForgeError, now: datetime) -> datetime:
        """Return until when to pause after an error of GitHub."""
        until = error.until if isinstance(error, RateLimited) else now + self._delay
        return min(max(until, now + self._pace.first_wait), now + MAX_WAIT)


def _find_write(forge: Forge, row: OutboxRow, policy: OutboxPolicy) -> ActionResult | None:
    action = decode_action(row.kind, row.payload)
    try:
        return forge.find_performed(action, token=row.token, since=lookup_since(row, policy))
    except (RateLimited, Unauthorized):
        raise  # this says nothing about the write
    except Refused:
        return None  # its thread was deleted, or access is denied


def _lookup_key(row: Unobserved) -> LookupKey:
    return str(row.repo), row.token
