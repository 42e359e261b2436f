"""One row per agent process."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and the index that keeps a task to one open run."""
    op.create_table(
        "runs",
        *_who(),
        *_how_far(),
        *_how_it_ended(),
        sa.PrimaryKeyConstraint("run", name="pk_runs"),
        sa.UniqueConstraint("task_id", "fence", name="uq_runs_task_id"),
    )
    not_ended = sa.text("state <> 'ended'")
    op.create_index(
        "ix_runs_open",
        "runs",
        ["task_id"],
        unique=True,
        sqlite_where=not_ended,
        postgresql_where=not_ended,
    )
    op.create_index("ix_runs_state", "runs", ["state"])


def _who() -> list[sa.Column[Any]]:
    texts = ("run", "task_id", "project", "kind", "agent", "agent_kind", "pool", "folder")
    numbers = ("fence", "attempt")
    return [
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        *(sa.Column(name, sa.Integer, nullable=False) for name in numbers),
    ]


def _how_far() -> list[sa.Column[Any]]:
    stamps = ("starting_at", "running_at", "exited_at", "finishing_at", "ended_at")
    return [
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("stop_why", sa.Text, nullable=True),
        sa.Column("shim", sa.Text, nullable=True),
        _count("stdout_offset", BIG),
        _count("stderr_offset", BIG),
        sa.Column("tally", sa.Text, nullable=True),
        sa.Column("admitted_at", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=True) for name in stamps),
    ]


def _how_it_ended() -> list[sa.Column[Any]]:
    texts = ("outcome", "decided_by", "why", "result", "limit_signal", "ended_by", "session")
    return [
        *(sa.Column(name, sa.Text, nullable=True) for name in texts),
        sa.Column("exit_code", sa.Integer, nullable=True),
        sa.Column("counted", sa.Integer, nullable=False, server_default=sa.text("1")),
        _count("input_tokens", BIG),
        _count("output_tokens", BIG),
        _count("cached_tokens", BIG),
        _count("usd", sa.Double),
    ]


def _count(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=sa.text("0"))
