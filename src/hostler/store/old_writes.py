"""Writes of the outbox, page by page, with what still needs them; and letting go of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, case, delete, func, or_, select, tuple_, update

from hostler.store.forge_tables import outbox
from hostler.store.outbox import OPEN, WriteState
from hostler.store.tables import action_tokens
from hostler.store.transaction import Transaction

# What a write holds whose text is gone.
BARE = "{}"


@dataclass(frozen=True, slots=True)
class OldWrite:
    """One write. `superseded`: a later one has the same result; `needed`: an open one waits."""

    sequence: int
    repo_full_name: str
    token: str
    kind: str
    scope_number: int
    state: WriteState
    updated_at: str
    size: int
    bare: bool
    superseded: bool
    needed: bool

    @property
    def settled(self) -> bool:
        return self.state not in OPEN


def writes_before(
    tx: Transaction, moment: str, after: int, most: int, alike: Mapping[str, Sequence[str]]
) -> list[OldWrite]:
    """The next writes that were queued before a moment.

    `alike`: by kind, all kinds whose results are of one sort: only these are compared.
    """
    return _writes(tx, and_(outbox.c.sequence > after, outbox.c.created_at < moment), most, alike)


def writes_named(
    tx: Transaction, sequences: Collection[int], alike: Mapping[str, Sequence[str]]
) -> list[OldWrite]:
    """These writes, as far as they exist."""
    return _writes(tx, outbox.c.sequence.in_(list(sequences)), len(sequences), alike)


def remove_writes(tx: Transaction, writes: Sequence[OldWrite]) -> None:
    """Remove settled writes with their tokens."""
    names = [(write.repo_full_name, write.token) for write in writes if write.settled]
    for table in (outbox, action_tokens):
        chosen = tuple_(table.c.repo_full_name, table.c.token).in_(names)
        tx.execute(delete(table).where(chosen))


def empty_writes(tx: Transaction, writes: Sequence[OldWrite]) -> None:
    """Forget the texts of settled writes; who they were, and what came of them, stays."""
    chosen = outbox.c.sequence.in_([write.sequence for write in writes if write.settled])
    tx.execute(update(outbox).where(chosen).values(payload=BARE))


def _writes(
    tx: Transaction, chosen: ColumnElement[bool], most: int, alike: Mapping[str, Sequence[str]]
) -> list[OldWrite]:
    statement = (
        select(
            outbox.c.sequence,
            outbox.c.repo_full_name,
            outbox.c.token,
            outbox.c.kind,
            outbox.c.scope_number,
            outbox.c.state,
            outbox.c.updated_at,
            func.length(outbox.c.payload).label("size"),
            case((outbox.c.payload == BARE, 1), else_=0).label("bare"),
            _superseded(alike).label("superseded"),
            _needed().label("needed"),
        )
        .where(chosen)
        .order_by(outbox.c.sequence)
        .limit(most)
    )
    return [_write(dict(row)) for row in tx.execute(statement).mappings()]


def _superseded(alike: Mapping[str, Sequence[str]]) -> ColumnElement[bool]:
    later = outbox.alias("later")
    same_sort = or_(
        *(and_(outbox.c.kind == kind, later.c.kind.in_(kinds)) for kind, kinds in alike.items())
    )
    return (
        select(later.c.sequence)
        .where(
            later.c.repo_full_name == outbox.c.repo_full_name,
            later.c.result_id == outbox.c.result_id,
            later.c.sequence > outbox.c.sequence,
            same_sort,
        )
        .exists()
    )


def _needed() -> ColumnElement[bool]:
    waiting = outbox.alias("waiting")
    return (
        select(waiting.c.sequence)
        .where(
            waiting.c.state.in_([state.value for state in OPEN]),
            waiting.c.repo_full_name == outbox.c.repo_full_name,
            waiting.c.depends_on == outbox.c.token,
        )
        .exists()
    )


def _write(row: dict[str, Any]) -> OldWrite:
    flags = {name: bool(row[name]) for name in ("bare", "superseded", "needed")}
    return OldWrite(**row | flags | {"state": WriteState(row["state"])})
