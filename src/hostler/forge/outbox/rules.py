"""Decide what the outbox does next, and what a write becomes. Pure functions.

`choose` selects the next step, `mark` is the row before it is sent, `after` the row after the
outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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

# No stored wait is believed to be longer: the longest that a limit can ask for.
MAX_WAIT = timedelta(hours=1)
RATE_LIMITED_KIND = RateLimited.__name__
# Refusals that say nothing about the write itself.
_RETRYABLE_ERRORS = (RateLimited, Unreachable, Unauthorized, CredentialsMissing, ServerFailed)
_FINAL_ERRORS = (Gone, Moved)


@dataclass(frozen=True, slots=True)
class OutboxPace:
    """How patient the sender is."""

    between_writes: timedelta = timedelta(seconds=1)
    # How long a write may stay invisible; "absent" is believed only after it.
    visibility: timedelta = timedelta(seconds=300)
    overlap: timedelta = timedelta(seconds=5)
    max_attempts: int = 5
    # Looks that were refused, before a write is given up that nobody lets us look for.
    max_looks: int = 20
    first_wait: timedelta = timedelta(seconds=2)
    first_look: timedelta = timedelta(seconds=5)
    longest_wait: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class SendStep:
    """Post this write now."""

    row: OutboxRow


@dataclass(frozen=True, slots=True)
class LookupStep:
    """Look whether this write exists."""

    row: OutboxRow


@dataclass(frozen=True, slots=True)
class AbandonStep:
    """What this write depends on has failed."""

    row: OutboxRow


@dataclass(frozen=True, slots=True)
class WaitStep:
    """Nothing is due before then; None: nothing waits."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class NotFoundOutcome:
    """It was looked for and not seen; `at` is GitHub's time of looking."""

    at: datetime


# Which account a write is made with.
AccountOfRow = Callable[[OutboxRow], str]
OutboxStep = SendStep | LookupStep | AbandonStep | WaitStep
SendOutcome = ActionResult | NotFoundOutcome | ForgeError


def same_account(_row: OutboxRow) -> str:
    """One account makes all writes."""
    return ""


def choose_step(
    rows: Sequence[OutboxRow],
    now: datetime,
    last_write: datetime | None,
    pace: OutboxPace,
    payer: AccountOfRow = same_account,
) -> OutboxStep:
    """What to do next, given all open writes. A limit holds for the account that met it."""
    urgency = _urgency(rows)
    heads = sorted(
        _first_of_threads(rows), key=lambda head: (urgency[_thread_key(head)], head.sequence)
    )
    paused = _paused_until(rows, now, payer)
    # A last write that is yet to come is of a clock that was set back since.
    behind = last_write if last_write and last_write <= now else None
    written = behind + pace.between_writes if behind else now
    times: list[datetime] = []
    for head in heads:
        if head.dependency is WriteState.FAILED:
            return AbandonStep(head)
        if head.dependency not in (None, WriteState.SENT):
            continue
        sending = head.state is WriteState.QUEUED
        free = paused.get(payer(head), now)
        due = max(_due_at(head, now), free, written if sending else now)
        if due <= now:
            return SendStep(head) if sending else LookupStep(head)
        times.append(due)
    return WaitStep(min(times, default=None))


def mark_attempt(row: OutboxRow, at: datetime, now: datetime, pace: OutboxPace) -> OutboxRow:
    """A write that is about to leave, at GitHub's time `at`."""
    # When to look for it if we crash. A person may wait, so only where the look decides something.
    look_at = now if row.kind in UNIQUE_ACTION_KINDS else now + pace.first_look
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
    row: OutboxRow, outcome: SendOutcome, now: datetime, pace: OutboxPace
) -> OutboxRow:
    """What a write becomes by the outcome: of sending it, or of looking for an unclear one."""
    if isinstance(outcome, ActionResult):
        return mark_sent(row, outcome)
    if isinstance(outcome, NotFoundOutcome):
        return _mark_absent(row, outcome.at, now, pace)
    noted = replace(row, error_kind=type(outcome).__name__, last_error=outcome.what[:1000])
    if isinstance(outcome, _FINAL_ERRORS):
        return _mark_failed(noted)
    if row.state is WriteState.UNCLEAR:
        hopeless = not isinstance(outcome, _RETRYABLE_ERRORS) and row.setbacks >= pace.max_looks
        return (
            _mark_failed(noted)
            if hopeless
            else _retry_later(noted, outcome, now, pace.first_look, pace)
        )
    if isinstance(outcome, Unclear):
        look_at = format_timestamp(now + pace.first_look)
        return replace(noted, state=WriteState.UNCLEAR, setbacks=0, not_before=look_at)
    innocent = isinstance(outcome, _RETRYABLE_ERRORS)
    if row.state is WriteState.SENDING and innocent:
        noted = replace(noted, attempts=row.attempts - 1)
    elif not innocent and noted.attempts >= pace.max_attempts:
        return _mark_failed(noted)
    queued = replace(noted, state=WriteState.QUEUED)
    return _retry_later(queued, outcome, now, pace.first_wait, pace)


def mark_sent(row: OutboxRow, made: ActionResult) -> OutboxRow:
    """A write that exists."""
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
    """A write whose ground is gone."""
    reason = f"What it depends on ({row.depends_on}) has failed."
    return _mark_failed(replace(row, error_kind="Abandoned", last_error=reason))


def mark_unreadable(row: OutboxRow, reason: str) -> OutboxRow:
    """A write that cannot be read back from its row."""
    return _mark_failed(replace(row, error_kind="Broken", last_error=reason[:1000]))


def lookup_since(row: OutboxRow, pace: OutboxPace) -> datetime:
    """From when on to look for a write, by GitHub's clock."""
    return parse_timestamp(row.intent_at or row.not_before) - pace.overlap


def is_rate_limited(row: OutboxRow) -> bool:
    """Whether a write met a limit of its account when it was last tried."""
    return row.error_kind == RATE_LIMITED_KIND


def _paused_until(
    rows: Iterable[OutboxRow], now: datetime, payer: AccountOfRow
) -> dict[str, datetime]:
    """Until when each account that met a limit leaves GitHub alone."""
    paused: dict[str, datetime] = {}
    for row in rows:
        if is_rate_limited(row):
            paused[payer(row)] = max(_due_at(row, now), paused.get(payer(row), now))
    return paused


def _thread_key(row: OutboxRow) -> tuple[str, int]:
    return row.repo_full_name, row.scope_number


def _first_of_threads(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """The oldest open write of each thread."""
    heads: dict[tuple[str, int], OutboxRow] = {}
    for row in sorted(rows, key=lambda row: row.sequence):
        heads.setdefault(_thread_key(row), row)
    return list(heads.values())


def _urgency(rows: Iterable[OutboxRow]) -> dict[tuple[str, int], int]:
    """The most urgent lane of each thread: what waits behind its head pulls the head."""
    ranks: dict[tuple[str, int], int] = {}
    for row in rows:
        ranks[_thread_key(row)] = min(row.lane.rank, ranks.get(_thread_key(row), row.lane.rank))
    return ranks


def _due_at(row: OutboxRow, now: datetime) -> datetime:
    """When a write is due. A time beyond the longest wait is of a clock that was set back since."""
    at = parse_timestamp(row.not_before)
    return at if at <= now + MAX_WAIT else now


def _mark_absent(row: OutboxRow, at: datetime, now: datetime, pace: OutboxPace) -> OutboxRow:
    believed = parse_timestamp(row.attempted_at or format_timestamp(at)) + pace.visibility
    spent = row.attempts >= pace.max_attempts
    is_unique = row.kind in UNIQUE_ACTION_KINDS
    if at < believed and (spent or not is_unique):
        wait = min(pace.first_look * 2 ** min(row.setbacks, 20), believed - at)
        unseen = replace(row, state=WriteState.UNCLEAR, setbacks=row.setbacks + 1)
        return replace(unseen, not_before=format_timestamp(now + wait))
    if spent:
        return _mark_failed(replace(row, last_error=row.last_error or "It was never seen."))
    # The first repetition needs no wait; each further one waits longer, for an outage to pass.
    wait = pace.first_look * (2 ** (row.attempts - 1) - 1) if is_unique else timedelta(0)
    return replace(
        row, state=WriteState.QUEUED, setbacks=0, not_before=format_timestamp(now + wait)
    )


def _retry_later(
    row: OutboxRow, error: ForgeError, now: datetime, first: timedelta, pace: OutboxPace
) -> OutboxRow:
    if isinstance(error, RateLimited):
        until = min(max(error.until, now + pace.first_wait), now + MAX_WAIT)
        return replace(row, not_before=format_timestamp(until))
    wait = min(first * 2 ** min(row.setbacks, 20), pace.longest_wait)
    return replace(row, setbacks=row.setbacks + 1, not_before=format_timestamp(now + wait))


def _mark_failed(row: OutboxRow) -> OutboxRow:
    return replace(row, state=WriteState.FAILED)
