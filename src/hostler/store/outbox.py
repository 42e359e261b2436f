"""Rows of the outbox: writes to GitHub, queued, under way and settled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, insert, select, update

from hostler.errors import StoreConflict
from hostler.model import RepoName, ScopeKind
from hostler.store.forge_tables import outbox
from hostler.store.transaction import Transaction


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
