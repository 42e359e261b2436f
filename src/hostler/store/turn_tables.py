"""Whose turn it is: where each project's last turn ended."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from hostler.store.columns import BIG
from hostler.store.metadata import metadata

turns = Table(
    "turns",
    metadata,
    Column("project", Text, primary_key=True),
    Column("turn", BIG, nullable=False),
)
