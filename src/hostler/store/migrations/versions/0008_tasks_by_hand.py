"""Tasks by hand, what tasks wait for, lent places, and issues that others depend on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, an index to find children by, and the table of issues."""
    for column in (
        _text("prompt"),
        _text("cwd"),
        _text("env", "'[]'"),
        _text("depends_on", "'[]'"),
        _text("blockers"),
        _text("gate"),
        sa.Column("gate_since", sa.Text, nullable=True),
        sa.Column("wall_limit_minutes", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("max_restarts", sa.Integer, nullable=True),
    ):
        op.add_column("tasks", column)
    op.create_index("ix_tasks_parent_task", "tasks", ["parent_task"])
    for name in ("lent_at", "lent_by", "back_wanted_at"):
        op.add_column("runs", sa.Column(name, sa.Text, nullable=True))
    op.create_table(
        "issue_states",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("issue_number", BIG, nullable=False, autoincrement=False),
        sa.Column("state", sa.Text, nullable=False),
        _text("title"),
        sa.Column("seen_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("repo_full_name", "issue_number", name="pk_issue_states"),
    )


def _text(name: str, default: str = "''") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=sa.text(default))
