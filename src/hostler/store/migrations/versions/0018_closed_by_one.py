"""On whose word alone a pool is closed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "pools", sa.Column("parked_run", sa.Text, nullable=False, server_default=sa.text("''"))
    )
