"""What the feeds remember: pages with their ETags, and pull requests that have moved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG, StampNow

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both tables."""
    op.create_table(
        "github_feed_chains",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("surface", sa.Text, nullable=False),
        sa.Column("scope_number", BIG, nullable=False, autoincrement=False),
        sa.Column("pages", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.PrimaryKeyConstraint(
            "repo_full_name", "surface", "scope_number", name="pk_github_feed_chains"
        ),
    )
    op.create_table(
        "github_moved_pulls",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("pr_number", BIG, nullable=False, autoincrement=False),
        sa.Column("marked_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.PrimaryKeyConstraint("repo_full_name", "pr_number", name="pk_github_moved_pulls"),
    )
