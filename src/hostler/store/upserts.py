"""Insert-or-something-else, which SQLAlchemy spells differently for each database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

from hostler.store.transaction import Transaction

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def insert_if_absent(tx: Transaction, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row unless its primary key is taken."""
    statement = _insert(tx, table).values(**row)
    tx.execute(statement.on_conflict_do_nothing(index_elements=_key(table)))


def insert_if_new(
    tx: Transaction, table: Table, row: Mapping[str, Any], *, key: Sequence[str]
) -> bool:
    """Insert a row unless these columns' values are taken; whether it was inserted."""
    insert = _insert(tx, table).values(**row).inline()
    maybe = insert.on_conflict_do_nothing(index_elements=list(key))
    # Otherwise PostgreSQL's answer to an insert is dropped before anybody can count.
    return tx.execute(maybe.execution_options(preserve_rowcount=True)).rowcount == 1


def insert_or_update(tx: Transaction, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row, or give the row of the same primary key these values."""
    statement = _insert(tx, table).values(**row)
    key = _key(table)
    changed = {name: statement.excluded[name] for name in row if name not in key}
    tx.execute(statement.on_conflict_do_update(index_elements=key, set_=changed))


def _insert(tx: Transaction, table: Table) -> sqlite.Insert | postgresql.Insert:
    if not tx.on_postgres:
        return sqlite.insert(table)
    # Here alone: it takes long to load, and most homes have no server.
    from sqlalchemy.dialects.postgresql import insert

    return insert(table)


def _key(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]
