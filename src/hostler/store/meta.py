"""Facts about the database itself."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from hostler import __version__
from hostler.model import stamp
from hostler.store.tables import store_meta
from hostler.store.transaction import Transaction

STORE_ID, CREATED_AT, CREATED_BY = "store_id", "created_at", "created_by"
UPGRADED_AT, UPGRADED_BY = "upgraded_at", "upgraded_by"


def read_meta(tx: Transaction) -> dict[str, str]:
    """All facts, by key."""
    rows = tx.execute(select(store_meta.c.key, store_meta.c.value))
    return {str(row.key): str(row.value) for row in rows}


def note_upgrade(connection: Connection, now: datetime) -> None:
    """Note who made the database and who changed it last."""
    known = {str(row[0]) for row in connection.execute(select(store_meta.c.key))}
    facts = {UPGRADED_AT: stamp(now), UPGRADED_BY: __version__}
    if STORE_ID not in known:
        facts |= {STORE_ID: uuid.uuid4().hex, CREATED_AT: stamp(now), CREATED_BY: __version__}
    for key, value in facts.items():
        if key in known:
            connection.execute(
                update(store_meta).where(store_meta.c.key == key).values(value=value)
            )
        else:
            connection.execute(insert(store_meta).values(key=key, value=value))
