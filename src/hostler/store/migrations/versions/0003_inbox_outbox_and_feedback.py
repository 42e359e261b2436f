"""What comes from GitHub, what goes there, and what people said about pull requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG, StampNow

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three tables."""
    _inbox()
    _outbox()
    _feedback_events()


def _inbox() -> None:
    op.create_table(
        "inbox",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("event_key", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("scope_number", BIG, nullable=False),
        sa.Column("object_id", BIG, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("received_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.Column("consumed_at", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("sequence", name="pk_inbox"),
        sa.UniqueConstraint("repo_full_name", "event_key", name="uq_inbox_repo_full_name"),
    )
    op.create_index("ix_inbox_pending", "inbox", ["repo_full_name", "consumed_at", "scope_number"])


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("scope_kind", sa.Text, nullable=False),
        sa.Column("scope_number", BIG, nullable=False),
        sa.Column("lane", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("depends_on", sa.Text, nullable=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("setbacks", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("not_before", sa.Text, nullable=False),
        sa.Column("intent_at", sa.Text, nullable=True),
        sa.Column("attempted_at", sa.Text, nullable=True),
        sa.Column("error_kind", sa.Text, nullable=True),
        sa.Column("last_error", sa.Text, nullable=True),
        sa.Column("result_id", BIG, nullable=True),
        sa.Column("result_number", BIG, nullable=True),
        sa.Column("result_url", sa.Text, nullable=True),
        sa.Column("created_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.Column("updated_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.PrimaryKeyConstraint("sequence", name="pk_outbox"),
        sa.UniqueConstraint("repo_full_name", "token", name="uq_outbox_repo_full_name"),
    )
    op.create_index("ix_outbox_state", "outbox", ["state", "sequence"])
    op.create_index("ix_outbox_result", "outbox", ["repo_full_name", "result_id"])


def _feedback_events() -> None:
    op.create_table(
        "feedback_events",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("event_key", sa.Text, nullable=False),
        sa.Column("pr_number", BIG, nullable=False),
        sa.Column("issue_number", BIG, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("comment_id", BIG, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False, server_default=StampNow()),
        sa.Column("processed_at", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("repo_full_name", "event_key", name="pk_feedback_events"),
    )
    op.create_index(
        "ix_feedback_events_pending",
        "feedback_events",
        ["repo_full_name", "pr_number", "processed_at"],
    )
