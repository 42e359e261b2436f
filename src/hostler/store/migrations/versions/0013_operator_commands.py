"""Operator commands, and what they ask of the service."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG, StampNow

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both tables."""
    op.create_table(
        "operator_commands",
        sa.Column("command_key", sa.Text, nullable=False),
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("thread_number", BIG, nullable=False),
        sa.Column("comment_id", BIG, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("verb", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("status", sa.Text, nullable=False),
        _words("result"),
        sa.Column("said_at", sa.Text, nullable=False),
        *_moments(),
        sa.PrimaryKeyConstraint("command_key", name="pk_operator_commands"),
    )
    op.create_index(
        "ix_operator_commands_status", "operator_commands", ["repo_full_name", "status"]
    )
    op.create_index(
        "ix_operator_commands_thread", "operator_commands", ["repo_full_name", "thread_number"]
    )
    op.create_table(
        "runtime_operations",
        sa.Column("op_name", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("command_key", sa.Text, nullable=True),
        sa.Column("repo_full_name", sa.Text, nullable=True),
        _words("detail"),
        *_moments(),
        sa.PrimaryKeyConstraint("op_name", name="pk_runtime_operations"),
    )


def _words(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=sa.text("''"))


def _moments() -> list[sa.Column[str]]:
    return [
        sa.Column(name, sa.Text, nullable=False, server_default=StampNow())
        for name in ("created_at", "updated_at")
    ]
