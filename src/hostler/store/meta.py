"""Facts about the database itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from hostler import __version__
from hostler.model import stamp
from hostler.store.tables import store_meta
from hostler.store.transaction import Transaction

STORE_ID, CREATED_AT, CREATED_BY = "store_id", "created_at", "created_by"
UPGRADED_AT, UPGRADED_BY = "upgraded_at", "upgraded_by"
# The tables that migrations made, so that an older program can copy and drop all of them.
TABLES = "tables"


def read_meta(tx: Transaction) -> dict[str, str]:
    """All facts, by key."""
    rows = tx.execute(select(store_meta.c.key, store_meta.c.value))
    return {str(row.key): str(row.value) for row in rows}


def noted_tables(connection: Connection) -> set[str]:
    """Our tables, as the last upgrade noted them; none in a database from before such notes."""
    noted = select(store_meta.c.value).where(store_meta.c.key == TABLES)
    return set((connection.execute(noted).scalar() or "").split())


def note_upgrade(connection: Connection, now: datetime, tables: Iterable[str]) -> None:
    """Note who made the database, who changed it last, and which tables it has now."""
    known = {str(row[0]) for row in connection.execute(select(store_meta.c.key))}
    facts = {UPGRADED_AT: stamp(now), UPGRADED_BY: __version__, TABLES: " ".join(sorted(tables))}
    if STORE_ID not in known:
        facts |= {STORE_ID: uuid.uuid4().hex, CREATED_AT: stamp(now), CREATED_BY: __version__}
    for key, value in facts.items():
        if key in known:
            connection.execute(
                update(store_meta).where(store_meta.c.key == key).values(value=value)
            )
        else:
            connection.execute(insert(store_meta).values(key=key, value=value))
