"""Notices, and finding what a day has cost without reading all runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import StampNow

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the index."""
    op.create_table(
        "notices",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("occasion", sa.Text, nullable=False),
        *(_words(name) for name in ("title", "body", "url")),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("not_before", sa.Text, nullable=False),
        _words("last_error"),
        sa.Column("created_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.Column("updated_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.PrimaryKeyConstraint("key", name="pk_notices"),
    )
    op.create_index("ix_notices_state", "notices", ["state", "not_before"])
    op.create_index("ix_runs_exited_at", "runs", ["exited_at"])


def _words(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=sa.text("''"))
