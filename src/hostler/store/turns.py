"""When each project had its last turn: a number that grows with every start."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text, func, select

from hostler.store.columns import BIG
from hostler.store.metadata import metadata
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_or_update

table = Table(
    "turns",
    metadata,
    Column("project", Text, primary_key=True),
    Column("turn", BIG, nullable=False),
)


def take_turn(tx: Transaction, project: str) -> None:
    """This project has its turn now."""
    last = tx.execute(select(func.max(table.c.turn))).scalar_one() or 0
    insert_or_update(tx, table, {"project": project, "turn": last + 1})


def turns(tx: Transaction) -> dict[str, int]:
    """The last turn of every project that had one."""
    rows = tx.execute(select(table)).mappings()
    return {row["project"]: row["turn"] for row in rows}
