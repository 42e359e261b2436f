"""Whose turn it was last; and an index for writes that nobody has seen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the index."""
    op.create_table(
        "turns",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("turn", BIG, nullable=False),
        sa.PrimaryKeyConstraint("project", name="pk_turns"),
    )
    op.create_index("ix_action_tokens_status", "action_tokens", ["status", "updated_at"])
