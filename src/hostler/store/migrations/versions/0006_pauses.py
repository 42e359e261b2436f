"""What people paused, until somebody lifts it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "pauses",
        *(sa.Column(name, sa.Text, nullable=False) for name in ("scope", "since", "by", "why")),
        sa.PrimaryKeyConstraint("scope", name="pk_pauses"),
    )
