"""What providers told the agents of a pool."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and its indexes."""
    zero, empty = sa.text("0"), sa.text("''")
    op.create_table(
        "limit_signals",
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "pool", "task_id")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("project", "source", "reason")),
        sa.Column("status", sa.Integer, nullable=False, server_default=zero),
        sa.Column("retry_after_seconds", sa.Double, nullable=False, server_default=zero),
        sa.Column("resets_at", sa.Text, nullable=False, server_default=empty),
        sa.Column("times", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.PrimaryKeyConstraint("run", "number", name="pk_limit_signals"),
    )
    op.create_index("ix_limit_signals_pool", "limit_signals", ["pool", "at"])
    op.create_index("ix_limit_signals_at", "limit_signals", ["at"])
