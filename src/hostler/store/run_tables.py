"""The table of runs: one row per agent process, from its admission to its end."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Integer, Table, Text, UniqueConstraint, text

from hostler.store.columns import BIG
from hostler.store.metadata import metadata

NOT_ENDED = text("state <> 'ended'")

runs = Table(
    "runs",
    metadata,
    Column("run", Text, primary_key=True),
    Column("task_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("agent_kind", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("stop_why", Text, nullable=True),
    Column("folder", Text, nullable=False),
    Column("shim", Text, nullable=True),
    Column("stdout_offset", BIG, nullable=False, server_default=text("0")),
    Column("stderr_offset", BIG, nullable=False, server_default=text("0")),
    Column("tally", Text, nullable=True),
    Column("outcome", Text, nullable=True),
    Column("decided_by", Text, nullable=True),
    Column("why", Text, nullable=True),
    Column("result", Text, nullable=True),
    Column("limit_signal", Text, nullable=True),
    Column("exit_code", Integer, nullable=True),
    Column("ended_by", Text, nullable=True),
    Column("counted", Integer, nullable=False, server_default=text("1")),
    Column("input_tokens", BIG, nullable=False, server_default=text("0")),
    Column("output_tokens", BIG, nullable=False, server_default=text("0")),
    Column("cached_tokens", BIG, nullable=False, server_default=text("0")),
    Column("usd", Double, nullable=False, server_default=text("0")),
    Column("session", Text, nullable=True),
    Column("admitted_at", Text, nullable=False),
    Column("starting_at", Text, nullable=True),
    Column("running_at", Text, nullable=True),
    Column("exited_at", Text, nullable=True),
    Column("finishing_at", Text, nullable=True),
    Column("ended_at", Text, nullable=True),
    Column("lent_at", Text, nullable=True),
    Column("lent_by", Text, nullable=True),
    Column("back_wanted_at", Text, nullable=True),
    UniqueConstraint("task_id", "fence"),
    # One task never has two live agents: the database itself says no. For PostgreSQL the same
    # condition is added there: here it would load that dialect at every start.
    Index("ix_runs_open", "task_id", unique=True, sqlite_where=NOT_ENDED),
    Index("ix_runs_state", "state"),
    Index("ix_runs_exited_at", "exited_at"),
)
