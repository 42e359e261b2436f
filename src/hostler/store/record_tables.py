"""Tables of what the service notes of itself, for a day: pools over time, and looks by the hour."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Integer, Table, Text, text

from hostler.store.metadata import metadata

# A pool as it was at a moment; what stays as it is makes a row every few minutes alone.
pool_samples = Table(
    "pool_samples",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("at", Text, primary_key=True),
    Column("ceiling", Integer, nullable=False),
    Column("cap", Integer, nullable=False),
    Column("active", Integer, nullable=False),
    Column("breaker", Text, nullable=False),
    Column("parked", Integer, nullable=False),
    Index("ix_pool_samples_at", "at"),
)

# Looks at a repository that were over in an hour: how many, how late, and the last of them.
poll_hours = Table(
    "poll_hours",
    metadata,
    Column("project", Text, primary_key=True),
    Column("hour", Text, primary_key=True),
    Column("polls", Integer, nullable=False),
    Column("late", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("lag_seconds", Double, nullable=False),
    Column("worst_seconds", Double, nullable=False),
    Column("last_at", Text, nullable=False),
    Column("last_seconds", Double, nullable=False),
    Column("late_since", Text, nullable=False, server_default=text("''")),
    Index("ix_poll_hours_hour", "hour"),
)
