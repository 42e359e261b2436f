"""Writes of the outbox, page by page, with what still needs them; and letting go of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, case, delete, func, select, tuple_, update

from hostler.store.forge_tables import outbox
from hostler.store.old_tasks import Thread, rows_of
from hostler.store.outbox import OPEN, WriteState
from hostler.store.tables import action_tokens
from hostler.store.transaction import Transaction

# What a write holds whose text is gone.
BARE = "{}"
_COLUMNS = (
    *("sequence", "repo_full_name", "token", "kind", "scope_number", "state", "updated_at"),
    "result_id",
)


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


def unsent(tx: Transaction, threads: Collection[Thread]) -> tuple[set[Thread], set[str]]:
    """Which of these threads have writes that are not settled; and tokens of such on no thread."""
    where = (outbox.c.repo_full_name, outbox.c.scope_number)
    open_ = outbox.c.state.in_([state.value for state in OPEN])
    here = select(*where).where(open_, tuple_(*where).in_(list(threads))).distinct()
    nowhere = select(outbox.c.token).where(open_, outbox.c.scope_number == 0)
    found = {(repo, number) for repo, number in rows_of(tx, here)} if threads else set()
    return found, set(tx.execute(nowhere).scalars())


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
    columns = (outbox.c[name] for name in _COLUMNS)
    extent = (
        func.length(outbox.c.payload).label("size"),
        case((outbox.c.payload == BARE, 1), else_=0).label("bare"),
    )
    statement = select(*columns, *extent).where(chosen).order_by(outbox.c.sequence).limit(most)
    rows = [dict(row) for row in tx.execute(statement).mappings()]
    later, needed = _newest(tx, rows), _needed(tx)
    return [_write(row, later, needed, alike) for row in rows]


# By repository, kind and result, the newest write.
_Newest = Mapping[tuple[str, str, int], int]


def _newest(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> _Newest:
    """The newest writes with the same results as these."""
    repos = {row["repo_full_name"] for row in rows}
    results = {row["result_id"] for row in rows if row["result_id"] is not None}
    if not results:
        return {}
    what = (outbox.c.repo_full_name, outbox.c.kind, outbox.c.result_id)
    same = and_(outbox.c.repo_full_name.in_(repos), outbox.c.result_id.in_(results))
    newest = select(*what, func.max(outbox.c.sequence)).where(same).group_by(*what)
    return {(repo, kind, id_): last for repo, kind, id_, last in rows_of(tx, newest)}


def _needed(tx: Transaction) -> set[tuple[str, str]]:
    """Repository and token of what writes that are not settled depend on."""
    open_ = outbox.c.state.in_([state.value for state in OPEN])
    waiting = select(outbox.c.repo_full_name, outbox.c.depends_on)
    rows = rows_of(tx, waiting.where(open_, outbox.c.depends_on.is_not(None)))
    return {(repo, token) for repo, token in rows}


def _write(
    row: dict[str, Any],
    newest: _Newest,
    needed: Collection[tuple[str, str]],
    alike: Mapping[str, Sequence[str]],
) -> OldWrite:
    repo, result = row["repo_full_name"], row.pop("result_id")
    same = (newest.get((repo, kind, result), 0) for kind in alike.get(row["kind"], ()))
    changed = {
        "state": WriteState(row["state"]),
        "bare": bool(row["bare"]),
        "superseded": max(same, default=0) > row["sequence"],
        "needed": (repo, row["token"]) in needed,
    }
    return OldWrite(**row | changed)
