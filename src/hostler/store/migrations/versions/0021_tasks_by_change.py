"""Index of tasks by their last change, for readers that follow changes."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index("ix_tasks_updated_at", "tasks", ["updated_at"])
