"""Tables of the work itself: tasks, their pull requests, and how far issue threads were used."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table, Text, UniqueConstraint, text

from hostler.store.columns import BIG, EMPTY, ZERO, StampNow
from hostler.store.forge_tables import feedback_events, inbox
from hostler.store.metadata import metadata

# One piece of work for an agent: one per issue and flow. A task by hand has no repository.
tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("repo_full_name", Text, nullable=True),
    Column("issue_number", BIG, nullable=True),
    Column("flow", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("approved_by", Text, nullable=False, server_default=EMPTY),
    Column("issue_key", Text, nullable=False, server_default=EMPTY),
    Column("body_digest", Text, nullable=False, server_default=EMPTY),
    Column("state", Text, nullable=False),
    Column("state_since", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=EMPTY),
    Column("order", BIG, nullable=False),
    Column("turn", Integer, nullable=False, server_default=ZERO),
    Column("attempt", Integer, nullable=False, server_default=ZERO),
    Column("exits_without_progress", Integer, nullable=False, server_default=ZERO),
    Column("repair_rounds", Integer, nullable=False, server_default=ZERO),
    Column("requeues", Integer, nullable=False, server_default=ZERO),
    Column("finishing", Integer, nullable=False, server_default=ZERO),
    Column("progress", Text, nullable=False, server_default=EMPTY),
    Column("note", Text, nullable=False, server_default=EMPTY),
    Column("turn_keys", Text, nullable=False, server_default=text("'[]'")),
    Column("session", Text, nullable=False, server_default=EMPTY),
    Column("agent", Text, nullable=False, server_default=EMPTY),
    Column("branch", Text, nullable=False, server_default=EMPTY),
    Column("base_branch", Text, nullable=False, server_default=EMPTY),
    Column("pr_number", BIG, nullable=True),
    Column("question", Text, nullable=False, server_default=EMPTY),
    Column("wake_at", Text, nullable=True),
    Column("parent_task", Text, nullable=True),
    Column("status_token", Text, nullable=False, server_default=EMPTY),
    Column("status_digest", Text, nullable=False, server_default=EMPTY),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
    Column("prompt", Text, nullable=False, server_default=EMPTY),
    Column("cwd", Text, nullable=False, server_default=EMPTY),
    Column("env", Text, nullable=False, server_default=text("'[]'")),
    Column("depends_on", Text, nullable=False, server_default=text("'[]'")),
    Column("blockers", Text, nullable=False, server_default=EMPTY),
    Column("gate", Text, nullable=False, server_default=EMPTY),
    Column("gate_since", Text, nullable=True),
    Column("wall_limit_minutes", Integer, nullable=False, server_default=ZERO),
    Column("max_restarts", Integer, nullable=True),
    Column("outages", Integer, nullable=False, server_default=ZERO),
    UniqueConstraint("repo_full_name", "issue_number", "flow"),
    Index("ix_tasks_state", "state", "order"),
    Index("ix_tasks_parent_task", "parent_task"),
)

# Issues that tasks depend on, as they were last seen.
issue_states = Table(
    "issue_states",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("issue_number", BIG, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("title", Text, nullable=False, server_default=EMPTY),
    Column("seen_at", Text, nullable=False),
)

# Every pull request of ours, as long as we know it.
pull_requests = Table(
    "pull_requests",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("pr_number", BIG, primary_key=True, autoincrement=False),
    Column("issue_number", BIG, nullable=False),
    Column("task", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("last_seen_head_sha", Text, nullable=False, server_default=EMPTY),
    Column("turns_without_person", Integer, nullable=False, server_default=ZERO),
    Column("url", Text, nullable=False, server_default=EMPTY),
    Column("created_at", Text, nullable=False, server_default=StampNow()),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
    Index("ix_pull_requests_status", "repo_full_name", "status"),
    Index("ix_pull_requests_task", "task"),
)

# Which comments of an issue went to an agent before its pull request, and which were sent there.
issue_comment_cursors = Table(
    "issue_comment_cursors",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("issue_number", BIG, primary_key=True, autoincrement=False),
    Column("pre_pr_last_consumed_comment_id", BIG, nullable=False, server_default=ZERO),
    Column("post_pr_last_redirected_comment_id", BIG, nullable=False, server_default=ZERO),
    Column("updated_at", Text, nullable=False, server_default=StampNow()),
    Column("heard_from", Text, nullable=False, server_default=EMPTY),
)

# Other versions of one thing, everything on one thread, and what was said about one issue; words
# are found by their comment too.
Index("ix_inbox_object", inbox.c.repo_full_name, inbox.c.kind, inbox.c.object_id)
Index("ix_inbox_thread", inbox.c.repo_full_name, inbox.c.scope_number, inbox.c.kind)
Index(
    "ix_feedback_events_comment",
    feedback_events.c.repo_full_name,
    feedback_events.c.kind,
    feedback_events.c.comment_id,
)
Index(
    "ix_feedback_events_issue",
    feedback_events.c.repo_full_name,
    feedback_events.c.issue_number,
    feedback_events.c.processed_at,
)
