"""The table of pauses: what nothing new starts for until somebody lifts it."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from hostler.store.metadata import metadata

pauses = Table(
    "pauses",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("since", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("why", Text, nullable=False),
)
