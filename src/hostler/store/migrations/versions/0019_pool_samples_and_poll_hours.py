"""What the service notes of itself: pools over time, and looks by the hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "pool_samples",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("pool", "at")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("ceiling", "cap", "active")),
        sa.Column("breaker", sa.Text, nullable=False),
        sa.Column("parked", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("pool", "at", name="pk_pool_samples"),
    )
    op.create_index("ix_pool_samples_at", "pool_samples", ["at"])
    op.create_table(
        "poll_hours",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("project", "hour")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("polls", "late", "failed")),
        *(sa.Column(f"{name}_seconds", sa.Double, nullable=False) for name in ("lag", "worst")),
        sa.Column("last_at", sa.Text, nullable=False),
        sa.Column("last_seconds", sa.Double, nullable=False),
        sa.Column("late_since", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.PrimaryKeyConstraint("project", "hour", name="pk_poll_hours"),
    )
    op.create_index("ix_poll_hours_hour", "poll_hours", ["hour"])
