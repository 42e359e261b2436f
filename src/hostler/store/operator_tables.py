"""The tables of operator commands, and of what they ask of the whole service."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table, Text, text

from hostler.store.columns import BIG, StampNow
from hostler.store.metadata import metadata

# Every command that was heard, for good: who said what where, and what became of it.
operator_commands = Table(
    "operator_commands",
    metadata,
    Column("command_key", Text, primary_key=True),
    Column("repo_full_name", Text, nullable=False),
    Column("thread_number", BIG, nullable=False),
    Column("comment_id", BIG, nullable=False),
    Column("actor", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("arguments", Text, nullable=False, server_default=text("'{}'")),
    Column("status", Text, nullable=False),
    Column("result", Text, nullable=False, server_default=text("''")),
    # When GitHub says that it was said: commands are carried out in this order.
    Column("said_at", Text, nullable=False),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
    Index("ix_operator_commands_status", "repo_full_name", "status"),
    Index("ix_operator_commands_thread", "repo_full_name", "thread_number"),
)

# What is to be done with the service as a whole; one row for each kind of it.
runtime_operations = Table(
    "runtime_operations",
    metadata,
    Column("op_name", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("command_key", Text, nullable=True),
    Column("repo_full_name", Text, nullable=True),
    Column("detail", Text, nullable=False, server_default=text("''")),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
)
