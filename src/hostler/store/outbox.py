"""Writes to GitHub: the outbox, its backlog, and action tokens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, func, insert, select, update

from hostler.errors import StoreConflict
from hostler.model import RepoName, ScopeKind, TokenStatus
from hostler.store.schema import action_tokens, outbox
from hostler.store.transaction import Transaction, seconds_between


class Lane(StrEnum):
    """How urgent a write is, most urgent first."""

    OPERATOR = "operator"
    FEEDBACK = "feedback"
    STATUS = "status"

    @property
    def rank(self) -> int:
        """Lanes in order, as a number."""
        return list(Lane).index(self)


class WriteState(StrEnum):
    """How far a write has come."""

    QUEUED = "queued"
    SENDING = "sending"
    UNCLEAR = "unclear"
    SENT = "sent"
    FAILED = "failed"


OPEN = (WriteState.QUEUED, WriteState.SENDING, WriteState.UNCLEAR)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One write. `dependency` is the state of the write that it waits for, if any."""

    repo_full_name: str
    token: str
    scope_kind: ScopeKind
    scope_number: int
    lane: Lane
    kind: str
    payload: str
    state: WriteState
    not_before: str
    sequence: int = 0
    depends_on: str | None = None
    attempts: int = 0
    setbacks: int = 0
    intent_at: str | None = None
    attempted_at: str | None = None
    error_kind: str | None = None
    last_error: str | None = None
    result_id: int | None = None
    result_number: int | None = None
    result_url: str | None = None
    dependency: WriteState | None = None

    @property
    def repo(self) -> RepoName:
        """Whose thread it is for."""
        return RepoName.parse(self.repo_full_name)

    @property
    def settled(self) -> bool:
        """Whether nothing more is to be done."""
        return self.state not in OPEN


_earlier = outbox.alias("earlier")
_rows = select(outbox, _earlier.c.state.label("dependency")).select_from(
    outbox.outerjoin(
        _earlier,
        and_(
            _earlier.c.repo_full_name == outbox.c.repo_full_name,
            _earlier.c.token == outbox.c.depends_on,
        ),
    )
)


def add_write(tx: Transaction, row: OutboxRow) -> None:
    """Queue a write whose token is not there yet."""
    tx.execute(insert(outbox), {**_values(row), "created_at": tx.stamp(), "updated_at": tx.stamp()})


def find_write(tx: Transaction, repo: RepoName, token: str) -> OutboxRow | None:
    """A write by its token."""
    chosen = and_(outbox.c.repo_full_name == str(repo), outbox.c.token == token)
    found = tx.execute(_rows.where(chosen)).mappings().one_or_none()
    return _row(dict(found)) if found else None


def open_writes(tx: Transaction) -> list[OutboxRow]:
    """All writes that are not settled, oldest first."""
    chosen = _rows.where(outbox.c.state.in_([state.value for state in OPEN]))
    rows = tx.execute(chosen.order_by(outbox.c.sequence)).mappings()
    return [_row(dict(row)) for row in rows]


def change_write(tx: Transaction, before: OutboxRow, after: OutboxRow) -> None:
    """Store what became of a write; refused if somebody else has moved it meanwhile."""
    chosen = and_(outbox.c.sequence == before.sequence, outbox.c.state == before.state.value)
    done = tx.execute(
        update(outbox).where(chosen).values({**_values(after), "updated_at": tx.stamp()})
    )
    if done.rowcount != 1:
        raise StoreConflict(f"The write {before.token} is no longer {before.state}.")


def recorded_ids(
    tx: Transaction, repo: RepoName, kinds: Collection[str], ids: Collection[int]
) -> set[int]:
    """Which of these ids are results of our writes of these kinds."""
    chosen = and_(
        outbox.c.repo_full_name == str(repo),
        outbox.c.result_id.in_(list(ids)),
        outbox.c.kind.in_(list(kinds)),
    )
    return set(tx.execute(select(outbox.c.result_id).where(chosen)).scalars())


def _values(row: OutboxRow) -> dict[str, Any]:
    values = asdict(row)
    for name in ("sequence", "dependency"):
        del values[name]
    return values


def _row(values: dict[str, Any]) -> OutboxRow:
    for name in ("created_at", "updated_at"):
        del values[name]
    values |= {
        "scope_kind": ScopeKind(values["scope_kind"]),
        "lane": Lane(values["lane"]),
        "state": WriteState(values["state"]),
        "dependency": values["dependency"] and WriteState(values["dependency"]),
    }
    return OutboxRow(**values)


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that was given up, and why."""

    repo_full_name: str
    scope_number: int
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class StandingWrites:
    """How many were given up (and the newest of them), how many wait, and since when."""

    failed: int
    newest: tuple[Failure, ...]
    waiting: int
    oldest: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A write that GitHub took: when it was decided on, and when it was sent."""

    created_at: str
    attempted_at: str

    @property
    def seconds(self) -> float:
        """How long it took."""
        return seconds_between(self.created_at, self.attempted_at)


def deliveries(tx: Transaction, most: int) -> list[Delivery]:
    """The newest writes that were sent, newest first."""
    columns = (outbox.c.created_at, outbox.c.attempted_at)
    chosen = select(*columns).where(outbox.c.state == WriteState.SENT.value)
    rows = tx.execute(chosen.order_by(outbox.c.sequence.desc()).limit(most)).mappings()
    return [Delivery(**row) for row in rows if row["attempted_at"]]


def standing_writes(tx: Transaction, since: str, most: int) -> StandingWrites:
    """All that wait, and those that were given up since a moment."""
    given_up = and_(outbox.c.state == WriteState.FAILED.value, outbox.c.updated_at >= since)
    is_open = outbox.c.state.in_([state.value for state in OPEN])
    columns = (outbox.c.repo_full_name, outbox.c.scope_number, outbox.c.kind, outbox.c.last_error)
    rows = tx.execute(
        select(*columns).where(given_up).order_by(outbox.c.updated_at.desc()).limit(most)
    ).mappings()
    failed = tx.execute(select(func.count()).select_from(outbox).where(given_up)).scalar_one()
    waiting = tx.execute(select(func.count()).select_from(outbox).where(is_open)).scalar_one()
    oldest = tx.execute(select(func.min(outbox.c.created_at)).where(is_open)).scalar_one()
    newest = tuple(
        Failure(row["repo_full_name"], row["scope_number"], row["kind"], row["last_error"] or "")
        for row in rows
    )
    return StandingWrites(failed, newest, waiting, oldest)


@dataclass(frozen=True, slots=True)
class Unobserved:
    """One write, and when it was answered."""

    repo: RepoName
    token: str
    posted_at: str


def unobserved_writes(
    tx: Transaction, kinds: Collection[str], since: str, most: int
) -> list[Unobserved]:
    """Those of these kinds that were answered since a moment, oldest first."""
    tokens = action_tokens.c
    same = and_(outbox.c.repo_full_name == tokens.repo_full_name, outbox.c.token == tokens.token)
    chosen = and_(
        tokens.status == TokenStatus.POSTED.value,
        tokens.updated_at >= since,
        outbox.c.kind.in_(list(kinds)),
        outbox.c.state == WriteState.SENT.value,
    )
    wanted = select(tokens.repo_full_name, tokens.token, tokens.updated_at)
    found = wanted.select_from(action_tokens.join(outbox, same)).where(chosen)
    rows = tx.execute(found.order_by(tokens.updated_at, tokens.token).limit(most)).mappings()
    return [
        Unobserved(RepoName.parse(row["repo_full_name"]), row["token"], row["updated_at"])
        for row in rows
    ]


def unobserved_write(tx: Transaction, found: Unobserved) -> OutboxRow | None:
    """The whole write."""
    return find_write(tx, found.repo, found.token)


class TokenEvent(StrEnum):
    """What can happen to an outgoing write."""

    POSTED = "posted"
    OBSERVED = "observed"
    FAILED = "failed"


# A write that exists must never be made again, so the facts "answered" and "seen" lead out of
# failed, and nothing leads out of observed.
_NEXT: dict[TokenEvent, dict[TokenStatus, TokenStatus]] = {
    TokenEvent.POSTED: {
        TokenStatus.PLANNED: TokenStatus.POSTED,
        TokenStatus.POSTED: TokenStatus.POSTED,
        TokenStatus.FAILED: TokenStatus.POSTED,
        TokenStatus.OBSERVED: TokenStatus.OBSERVED,
    },
    TokenEvent.OBSERVED: dict.fromkeys(TokenStatus, TokenStatus.OBSERVED),
    TokenEvent.FAILED: {
        TokenStatus.PLANNED: TokenStatus.FAILED,
        TokenStatus.POSTED: TokenStatus.FAILED,
        TokenStatus.FAILED: TokenStatus.FAILED,
        TokenStatus.OBSERVED: TokenStatus.OBSERVED,
    },
}


def next_status(status: TokenStatus, event: TokenEvent) -> TokenStatus:
    """Where a token stands after an event. Every event is possible in every status."""
    return _NEXT[event][status]


def next_attempts(attempts: int, event: TokenEvent) -> int:
    """How often the write has been answered with success."""
    return attempts + (event is TokenEvent.POSTED)
