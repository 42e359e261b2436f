"""The table of what people did with tasks."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Table, Text

from hostler.store.metadata import metadata

# Of a task, by the order in which it was done. `asked` and `asked_at`: the question before it.
deeds = Table(
    "deeds",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("asked_at", Text, nullable=True),
)
