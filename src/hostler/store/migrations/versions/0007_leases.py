"""Leases, who wants more of them, and the state of pools."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three tables."""
    _leases()
    _demand()
    op.create_table(
        "pools",
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("parked_at", sa.Text, nullable=True),
        sa.Column("parked_until", sa.Text, nullable=True),
        _with_default("parked_why", sa.Text, "''"),
        sa.PrimaryKeyConstraint("pool", name="pk_pools"),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        *(_needed(name, sa.Text) for name in ("lease", "pool", "project")),
        *(_with_default(name, sa.Text, "''") for name in ("task_id", "program", "model")),
        _with_default("engine_pid", BIG, "0"),
        *(_needed(name, sa.Text) for name in ("host", "boot_id", "pid_namespace")),
        *(_needed(name, BIG) for name in ("pid", "start_ticks")),
        _with_default("lent", sa.Integer, "0"),
        _needed("acquired_at", sa.Text),
        sa.Column("attached_at", sa.Text, nullable=True),
        _needed("seen_at", sa.Text),
        sa.PrimaryKeyConstraint("lease", name="pk_leases"),
        sa.CheckConstraint("lent IN (0, 1)", name="ck_leases_lent"),
    )
    op.create_index("ix_leases_pool", "leases", ["pool", "lent"])
    op.create_index("ix_leases_project", "leases", ["project", "pool", "lent"])


def _demand() -> None:
    texts = ("pool", "project", "host", "boot_id", "pid_namespace")
    numbers = ("engine_pid", "start_ticks")
    op.create_table(
        "demand",
        *(_needed(name, sa.Text) for name in texts),
        *(_needed(name, BIG) for name in numbers),
        sa.Column("wanted", sa.Integer, nullable=True),
        _with_default("weight", sa.Integer, "1"),
        _with_default("width", sa.Integer, "0"),
        _needed("updated_at", sa.Text),
        sa.PrimaryKeyConstraint(*texts, *numbers, name="pk_demand"),
    )


def _needed(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _with_default(name: str, kind: Any, default: str) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=sa.text(default))
