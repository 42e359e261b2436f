"""Every table, in one place. A test proves that the migrations build exactly this."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table, Text, text

from hostler.store.columns import BIG, StampNow
from hostler.store.deed_tables import deeds
from hostler.store.feed_tables import feed_chains, moved_pulls
from hostler.store.forge_tables import feedback_events, inbox, outbox
from hostler.store.lease_tables import demand, leases, pools
from hostler.store.metadata import metadata
from hostler.store.notice_tables import notices
from hostler.store.operator_tables import operator_commands, runtime_operations
from hostler.store.pause_tables import pauses
from hostler.store.record_tables import poll_hours, pool_samples
from hostler.store.run_tables import runs
from hostler.store.signal_tables import limit_signals
from hostler.store.task_tables import (
    issue_comment_cursors,
    issue_states,
    pull_requests,
    tasks,
)
from hostler.store.turn_tables import turns

__all__ = [
    "action_tokens",
    "deeds",
    "demand",
    "feed_chains",
    "feedback_events",
    "inbox",
    "issue_comment_cursors",
    "issue_states",
    "leases",
    "limit_signals",
    "metadata",
    "moved_pulls",
    "notices",
    "operator_commands",
    "outbox",
    "pauses",
    "poll_cursors",
    "poll_hours",
    "pool_samples",
    "pools",
    "pull_requests",
    "repositories",
    "runs",
    "runtime_operations",
    "store_meta",
    "tables_with_a_repository",
    "tasks",
    "turns",
]

# Facts about the database itself: its id, when and by which program it was made.
store_meta = Table(
    "store_meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# The repositories we know. GitHub's number stays when a repository is renamed.
repositories = Table(
    "repositories",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("github_id", BIG, nullable=True, unique=True),
    Column("added_at", Text, nullable=False, server_default=StampNow()),
)

# How far each stream of comments has been read.
poll_cursors = Table(
    "github_comment_poll_cursors",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("surface", Text, primary_key=True),
    Column("scope_number", BIG, primary_key=True, autoincrement=False),
    Column("last_updated_at", Text, nullable=False),
    Column("last_comment_id", BIG, nullable=False),
    Column("bootstrap_complete", Integer, nullable=False, server_default=text("0")),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
)

# Every outgoing write, by its token.
action_tokens = Table(
    "action_tokens",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("token", Text, primary_key=True),
    Column("scope_kind", Text, nullable=False),
    Column("scope_number", BIG, nullable=False),
    Column("source", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt_count", Integer, nullable=False, server_default=text("0")),
    Column("observed_comment_id", BIG, nullable=True),
    Column("observed_updated_at", Text, nullable=True),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
    Index(
        "ix_action_tokens_scope_status", "repo_full_name", "scope_kind", "scope_number", "status"
    ),
    Index("ix_action_tokens_status", "status", "updated_at"),
)


def tables_with_a_repository() -> list[Table]:
    """Tables whose rows belong to a repository: a rename must reach all of them."""
    return [table for table in metadata.sorted_tables if "repo_full_name" in table.c]
