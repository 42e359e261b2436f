"""Words that wait for a blocked task, and from when on words are for agents again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both columns, with what waits in the index of events, and an index to find words by."""
    op.add_column("inbox", sa.Column("held_at", sa.Text, nullable=True))
    op.drop_index("ix_inbox_pending", "inbox")
    op.create_index(
        "ix_inbox_pending", "inbox", ["repo_full_name", "consumed_at", "scope_number", "held_at"]
    )
    op.create_index(
        "ix_feedback_events_comment", "feedback_events", ["repo_full_name", "kind", "comment_id"]
    )
    op.add_column(
        "issue_comment_cursors",
        sa.Column("heard_from", sa.Text, nullable=False, server_default=sa.text("''")),
    )
