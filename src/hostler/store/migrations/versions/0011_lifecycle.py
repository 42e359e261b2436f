"""Words that wait for a blocked task, and from when on words are for agents again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both columns, and an index to pass over what waits."""
    op.add_column("inbox", sa.Column("held_at", sa.Text, nullable=True))
    op.create_index(
        "ix_inbox_held", "inbox", ["repo_full_name", "consumed_at", "held_at", "scope_number"]
    )
    op.add_column(
        "issue_comment_cursors",
        sa.Column("heard_from", sa.Text, nullable=False, server_default=sa.text("''")),
    )
