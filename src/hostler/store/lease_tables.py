"""Tables of the places that agents take: leases, who wants more, and the state of pools."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Index, Integer, Table, Text, text

from hostler.store.columns import BIG, EMPTY, ZERO
from hostler.store.metadata import metadata

# One per agent that runs or is about to. The holder is a process, known beyond doubt.
leases = Table(
    "leases",
    metadata,
    Column("lease", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("task_id", Text, nullable=False, server_default=EMPTY),
    Column("program", Text, nullable=False, server_default=EMPTY),
    Column("model", Text, nullable=False, server_default=EMPTY),
    Column("engine_pid", BIG, nullable=False, server_default=ZERO),
    Column("host", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("pid_namespace", Text, nullable=False),
    Column("pid", BIG, nullable=False),
    Column("start_ticks", BIG, nullable=False),
    Column("lent", Integer, nullable=False, server_default=ZERO),
    Column("acquired_at", Text, nullable=False),
    Column("attached_at", Text, nullable=True),
    Column("seen_at", Text, nullable=False),
    # What is neither would be counted by nobody.
    CheckConstraint("lent IN (0, 1)", name="ck_leases_lent"),
    Index("ix_leases_pool", "pool", "lent"),
    Index("ix_leases_project", "project", "pool", "lent"),
)

# One per process that has work for a project in a pool; no number: it does not know how much.
demand = Table(
    "demand",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("boot_id", Text, primary_key=True),
    Column("pid_namespace", Text, primary_key=True),
    Column("engine_pid", BIG, primary_key=True, autoincrement=False),
    Column("start_ticks", BIG, primary_key=True, autoincrement=False),
    Column("wanted", Integer, nullable=True),
    Column("weight", Integer, nullable=False, server_default=text("1")),
    Column("width", Integer, nullable=False, server_default=ZERO),
    Column("updated_at", Text, nullable=False),
)

# What we learned of a pool. Its cap is the operator's, and stands in governor.json.
pools = Table(
    "pools",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("parked_at", Text, nullable=True),
    Column("parked_until", Text, nullable=True),
    Column("parked_why", Text, nullable=False, server_default=EMPTY),
    # JSON; empty: nothing yet. Only the governor looks into it.
    Column("overlay", Text, nullable=False, server_default=EMPTY),
    # The one run on whose word it is closed; empty: on more than that.
    Column("parked_run", Text, nullable=False, server_default=EMPTY),
)
