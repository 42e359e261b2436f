"""What people did with tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "deeds",
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "by", "what")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("text", "asked")),
        sa.Column("asked_at", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("task_id", "number", name="pk_deeds"),
    )
