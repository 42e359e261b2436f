"""Decide the outbox's next step, and the state of a write after it. Pure functions.

`choose_step` selects the next step, `mark_attempt` returns the row before it is sent,
`apply_outcome` the row after the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.backoff import backoff
from hostler.errors import (
    CredentialsMissing,
    ForgeError,
    Gone,
    Moved,
    RateLimited,
    ServerFailed,
    Unauthorized,
    Unclear,
    Unreachable,
)
from hostler.forge.actions import UNIQUE_ACTION_KINDS
from hostler.forge.port import ActionResult
from hostler.model import format_timestamp, parse_timestamp
from hostler.store.outbox import OutboxRow, WriteState

# Stored waits are limited to the longest that a rate limit can require.
MAX_WAIT = timedelta(hours=1)
_MAX_DOUBLINGS = 20
RATE_LIMITED_KIND = RateLimited.__name__
# Errors that say nothing about the write itself.
_RETRYABLE_ERRORS = (RateLimited, Unreachable, Unauthorized, CredentialsMissing, ServerFailed)
_FINAL_ERRORS = (Gone, Moved)


@dataclass(frozen=True, slots=True)
class OutboxPolicy:
    """How often and how long the sender retries."""

    between_writes: timedelta = timedelta(seconds=1)
    # How long a write may stay invisible; only then it counts as absent.
    visibility: timedelta = timedelta(seconds=300)
    overlap: timedelta = timedelta(seconds=5)
    max_attempts: int = 5
    # Failed lookups before a write is given up.
    max_lookups: int = 20
    first_wait: timedelta = timedelta(seconds=2)
    first_lookup_wait: timedelta = timedelta(seconds=5)
    max_wait: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class SendStep:
    """Send this write now."""

    row: OutboxRow


@dataclass(frozen=True, slots=True)
class LookupStep:
    """Look whether this write exists."""

    row: OutboxRow


@dataclass(frozen=True, slots=True)
class AbandonStep:
    """Give this write up: a write that it depends on has failed."""

    row: OutboxRow


@dataclass(frozen=True, slots=True)
class WaitStep:
    """Nothing is due before then; None: nothing is queued."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class NotFoundOutcome:
    """The write was not found; `at` is GitHub's time of the lookup."""

    at: datetime


# Return the account that a write is made with.
AccountOfRow = Callable[[OutboxRow], str]
OutboxStep = SendStep | LookupStep | AbandonStep | WaitStep
SendOutcome = ActionResult | NotFoundOutcome | ForgeError


def same_account(_row: OutboxRow) -> str:
    """Return one account for all writes."""
    return ""


def choose_step(
    rows: Sequence[OutboxRow],
    now: datetime,
    last_write: datetime | None,
    policy: OutboxPolicy,
    account_of: AccountOfRow = same_account,
) -> OutboxStep:
    """Choose the next step from all open writes. A limit applies to the account that met it."""
    urgency = _urgency(rows)
    first_rows = sorted(
        _first_of_threads(rows), key=lambda row_: (urgency[_thread_key(row_)], row_.sequence)
    )
    paused = _paused_until(rows, now, account_of)
    # A last write in the future: the clock was set back since.
    valid_last_write = last_write if last_write and last_write <= now else None
    next_write_at = valid_last_write + policy.between_writes if valid_last_write else now
    times: list[datetime] = []
    for row_ in first_rows:
        if row_.dependency is WriteState.FAILED:
            return AbandonStep(row_)
        if row_.dependency not in (None, WriteState.SENT):
            continue
        sending = row_.state is WriteState.QUEUED
        free = paused.get(account_of(row_), now)
        due = max(_due_at(row_, now), free, next_write_at if sending else now)
        if due <= now:
            return SendStep(row_) if sending else LookupStep(row_)
        times.append(due)
    return WaitStep(min(times, default=None))


def mark_attempt(row: OutboxRow, at: datetime, now: datetime, policy: OutboxPolicy) -> OutboxRow:
    """Return a write that is about to be sent, at GitHub's time `at`."""
    # When to look for it after a crash. A user may be waiting, so only if the lookup matters.
    look_at = now if row.kind in UNIQUE_ACTION_KINDS else now + policy.first_lookup_wait
    return replace(
        row,
        state=WriteState.SENDING,
        attempts=row.attempts + 1,
        intent_at=row.intent_at or format_timestamp(at),
        attempted_at=format_timestamp(at),
        not_before=format_timestamp(look_at),
        error_kind=None,
        last_error=None,
    )


def apply_outcome(
    row: OutboxRow, outcome: SendOutcome, now: datetime, policy: OutboxPolicy
) -> OutboxRow:
    """Return a write after its outcome: of sending it, or of looking for an unclear one."""
    if isinstance(outcome, ActionResult):
        return mark_sent(row, outcome)
    if isinstance(outcome, NotFoundOutcome):
        return _mark_absent(row, outcome.at, now, policy)
    noted = replace(row, error_kind=type(outcome).__name__, last_error=outcome.what[:1000])
    if isinstance(outcome, _FINAL_ERRORS):
        return _mark_failed(noted)
    if row.state is WriteState.UNCLEAR:
        hopeless = not isinstance(outcome, _RETRYABLE_ERRORS) and row.setbacks >= policy.max_lookups
        return (
            _mark_failed(noted)
            if hopeless
            else _retry_later(noted, outcome, now, policy.first_lookup_wait, policy)
        )
    if isinstance(outcome, Unclear):
        look_at = format_timestamp(now + policy.first_lookup_wait)
        return replace(noted, state=WriteState.UNCLEAR, setbacks=0, not_before=look_at)
    innocent = isinstance(outcome, _RETRYABLE_ERRORS)
    if row.state is WriteState.SENDING and innocent:
        noted = replace(noted, attempts=row.attempts - 1)
    elif not innocent and noted.attempts >= policy.max_attempts:
        return _mark_failed(noted)
    queued = replace(noted, state=WriteState.QUEUED)
    return _retry_later(queued, outcome, now, policy.first_wait, policy)


def mark_sent(row: OutboxRow, made: ActionResult) -> OutboxRow:
    """Return a write that exists on the host."""
    return replace(
        row,
        state=WriteState.SENT,
        setbacks=0,
        error_kind=None,
        last_error=None,
        result_id=made.id or None,
        result_number=made.number or None,
        result_url=made.url or None,
    )


def mark_abandoned(row: OutboxRow) -> OutboxRow:
    """Return a write given up because its dependency failed."""
    reason = f"A write that it depends on ({row.depends_on}) has failed."
    return _mark_failed(replace(row, error_kind="Abandoned", last_error=reason))


def mark_unreadable(row: OutboxRow, reason: str) -> OutboxRow:
    """Return a write given up because its row cannot be decoded."""
    return _mark_failed(replace(row, error_kind="Broken", last_error=reason[:1000]))


def lookup_since(row: OutboxRow, policy: OutboxPolicy) -> datetime:
    """Return from when to look for a write, by GitHub's clock."""
    return parse_timestamp(row.intent_at or row.not_before) - policy.overlap


def is_rate_limited(row: OutboxRow) -> bool:
    """Return whether a write met a rate limit at its last attempt."""
    return row.error_kind == RATE_LIMITED_KIND


def _paused_until(
    rows: Iterable[OutboxRow], now: datetime, account_of: AccountOfRow
) -> dict[str, datetime]:
    """Return until when each rate limited account must wait."""
    paused: dict[str, datetime] = {}
    for row in rows:
        if is_rate_limited(row):
            paused[account_of(row)] = max(_due_at(row, now), paused.get(account_of(row), now))
    return paused


def _thread_key(row: OutboxRow) -> tuple[str, int]:
    return row.repo_full_name, row.scope_number


def _first_of_threads(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """Return the oldest open write of each thread."""
    first_rows: dict[tuple[str, int], OutboxRow] = {}
    for row in sorted(rows, key=lambda row: row.sequence):
        first_rows.setdefault(_thread_key(row), row)
    return list(first_rows.values())


def _urgency(rows: Iterable[OutboxRow]) -> dict[tuple[str, int], int]:
    """Return the most urgent lane of each thread: an urgent write speeds up those before it."""
    ranks: dict[tuple[str, int], int] = {}
    for row in rows:
        ranks[_thread_key(row)] = min(row.lane.rank, ranks.get(_thread_key(row), row.lane.rank))
    return ranks


def _due_at(row: OutboxRow, now: datetime) -> datetime:
    """Return when a write is due; at once if its time is too far ahead: the clock was set back."""
    at = parse_timestamp(row.not_before)
    return at if at <= now + MAX_WAIT else now


def _mark_absent(row: OutboxRow, at: datetime, now: datetime, policy: OutboxPolicy) -> OutboxRow:
    believed = parse_timestamp(row.attempted_at or format_timestamp(at)) + policy.visibility
    spent = row.attempts >= policy.max_attempts
    is_unique = row.kind in UNIQUE_ACTION_KINDS
    if at < believed and (spent or not is_unique):
        wait = backoff(min(row.setbacks, _MAX_DOUBLINGS), policy.first_lookup_wait, believed - at)
        unseen = replace(row, state=WriteState.UNCLEAR, setbacks=row.setbacks + 1)
        return replace(unseen, not_before=format_timestamp(now + wait))
    if spent:
        return _mark_failed(replace(row, last_error=row.last_error or "It was never found."))
    # The first repetition needs no wait; later ones wait longer, in case of an outage.
    wait = timedelta(0)
    if is_unique:
        first = policy.first_lookup_wait
        wait = backoff(row.attempts - 1, first, timedelta.max) - first
    return replace(
        row, state=WriteState.QUEUED, setbacks=0, not_before=format_timestamp(now + wait)
    )


def _retry_later(
    row: OutboxRow, error: ForgeError, now: datetime, first: timedelta, policy: OutboxPolicy
) -> OutboxRow:
    if isinstance(error, RateLimited):
        until = min(max(error.until, now + policy.first_wait), now + MAX_WAIT)
        return replace(row, not_before=format_timestamp(until))
    wait = backoff(min(row.setbacks, _MAX_DOUBLINGS), first, policy.max_wait)
    return replace(row, setbacks=row.setbacks + 1, not_before=format_timestamp(now + wait))


def _mark_failed(row: OutboxRow) -> OutboxRow:
    return replace(row, state=WriteState.FAILED)
