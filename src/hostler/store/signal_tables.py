"""The table of limit signals: what providers told the agents of a pool."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Integer, Table, Text, text

from hostler.store.metadata import metadata

# One row per signal; the same one again and again in one look at a stream is one row.
limit_signals = Table(
    "limit_signals",
    metadata,
    Column("run", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("status", Integer, nullable=False, server_default=text("0")),
    Column("retry_after_seconds", Double, nullable=False, server_default=text("0")),
    Column("resets_at", Text, nullable=False, server_default=text("''")),
    Column("times", Integer, nullable=False, server_default=text("1")),
    Index("ix_limit_signals_pool", "pool", "at"),
    Index("ix_limit_signals_at", "at"),
)
