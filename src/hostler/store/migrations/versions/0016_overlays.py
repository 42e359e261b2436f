"""What is learned of a pool."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "pools", sa.Column("overlay", sa.Text, nullable=False, server_default=sa.text("''"))
    )
