"""The table of notices: what people were told once, and what is to be sent to them."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table, Text, text

from hostler.store.columns import EMPTY, StampNow
from hostler.store.metadata import metadata

# One row per cause: a restart repeats nothing.
notices = Table(
    "notices",
    metadata,
    Column("key", Text, primary_key=True),
    Column("occasion", Text, nullable=False),
    Column("title", Text, nullable=False, server_default=EMPTY),
    Column("body", Text, nullable=False, server_default=EMPTY),
    Column("url", Text, nullable=False, server_default=EMPTY),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("not_before", Text, nullable=False),
    Column("last_error", Text, nullable=False, server_default=EMPTY),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
    Index("ix_notices_state", "state", "not_before"),
)
