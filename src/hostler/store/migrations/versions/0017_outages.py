"""How often in a row a task's provider was not there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "tasks", sa.Column("outages", sa.Integer, nullable=False, server_default=sa.text("0"))
    )
