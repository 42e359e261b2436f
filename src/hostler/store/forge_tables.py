"""Tables of what comes from GitHub and what goes there."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table, Text, UniqueConstraint, text

from hostler.store.columns import BIG, StampNow
from hostler.store.metadata import metadata

# Everything GitHub showed us, whole, in the order of arrival. A new version is a new event key.
inbox = Table(
    "inbox",
    metadata,
    Column("sequence", BIG, primary_key=True),
    Column("repo_full_name", Text, nullable=False),
    Column("event_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("scope_number", BIG, nullable=False),
    Column("object_id", BIG, nullable=False),
    Column("author", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("received_at", Text, nullable=False, server_default=StampNow()),
    Column("consumed_at", Text, nullable=True),
    Column("held_at", Text, nullable=True),
    UniqueConstraint("repo_full_name", "event_key"),
    Index("ix_inbox_pending", "repo_full_name", "consumed_at", "scope_number", "held_at"),
)

# Every write to GitHub, one row per token of action_tokens.
outbox = Table(
    "outbox",
    metadata,
    Column("sequence", BIG, primary_key=True),
    Column("repo_full_name", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("scope_kind", Text, nullable=False),
    Column("scope_number", BIG, nullable=False),
    Column("lane", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("depends_on", Text, nullable=True),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("setbacks", Integer, nullable=False, server_default=text("0")),
    Column("not_before", Text, nullable=False),
    Column("intent_at", Text, nullable=True),
    Column("attempted_at", Text, nullable=True),
    Column("error_kind", Text, nullable=True),
    Column("last_error", Text, nullable=True),
    Column("result_id", BIG, nullable=True),
    Column("result_number", BIG, nullable=True),
    Column("result_url", Text, nullable=True),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
    UniqueConstraint("repo_full_name", "token"),
    Index("ix_outbox_state", "state", "sequence"),
    Index("ix_outbox_result", "repo_full_name", "result_id"),
)

# What people said about a pull request, until an agent has answered it.
feedback_events = Table(
    "feedback_events",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("event_key", Text, primary_key=True),
    Column("pr_number", BIG, nullable=False),
    Column("issue_number", BIG, nullable=False),
    Column("kind", Text, nullable=False),
    Column("comment_id", BIG, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("processed_at", Text, nullable=True),
    Index("ix_feedback_events_pending", "repo_full_name", "pr_number", "processed_at"),
)
