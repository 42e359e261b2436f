"""How far each stream of comments has been read, and every outgoing write."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG, StampNow

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables and the index by which open writes are found."""
    op.create_table(
        "github_comment_poll_cursors",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("surface", sa.Text, nullable=False),
        sa.Column("scope_number", BIG, nullable=False),
        sa.Column("last_updated_at", sa.Text, nullable=False),
        sa.Column("last_comment_id", BIG, nullable=False),
        sa.Column("bootstrap_complete", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("updated_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.PrimaryKeyConstraint(
            "repo_full_name", "surface", "scope_number", name="pk_github_comment_poll_cursors"
        ),
    )
    op.create_table(
        "action_tokens",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("scope_kind", sa.Text, nullable=False),
        sa.Column("scope_number", BIG, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempt_count", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("observed_comment_id", BIG, nullable=True),
        sa.Column("observed_updated_at", sa.Text, nullable=True),
        sa.Column("created_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.Column("updated_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.PrimaryKeyConstraint("repo_full_name", "token", name="pk_action_tokens"),
    )
    op.create_index(
        "ix_action_tokens_scope_status",
        "action_tokens",
        ["repo_full_name", "scope_kind", "scope_number", "status"],
    )
