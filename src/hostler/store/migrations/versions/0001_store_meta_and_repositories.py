"""The database's own facts, and the list of repositories."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG, StampNow

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "store_meta",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_store_meta"),
    )
    op.create_table(
        "repositories",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("github_id", BIG, nullable=True),
        sa.Column("added_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.PrimaryKeyConstraint("repo_full_name", name="pk_repositories"),
        sa.UniqueConstraint("github_id", name="uq_repositories_github_id"),
    )
