"""Tasks, their pull requests, and how far the comments of an issue were used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG, StampNow

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three tables, and indexes to find versions and remarks by."""
    _tasks()
    _pull_requests()
    _issue_comment_cursors()
    op.create_index("ix_inbox_object", "inbox", ["repo_full_name", "kind", "object_id"])
    op.create_index("ix_inbox_thread", "inbox", ["repo_full_name", "scope_number", "kind"])
    op.create_index(
        "ix_feedback_events_issue",
        "feedback_events",
        ["repo_full_name", "issue_number", "processed_at"],
    )


def _text(name: str, default: str = "''") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=sa.text(default))


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=sa.text("0"))


def _moment(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=StampNow())


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("repo_full_name", sa.Text, nullable=True),
        sa.Column("issue_number", BIG, nullable=True),
        sa.Column("flow", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        _text("approved_by"),
        _text("issue_key"),
        _text("body_digest"),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("state_since", sa.Text, nullable=False),
        _text("reason"),
        sa.Column("order", BIG, nullable=False),
        _count("turn"),
        _count("attempt"),
        _count("exits_without_progress"),
        _count("repair_rounds"),
        _count("requeues"),
        _count("finishing"),
        _text("progress"),
        _text("note"),
        _text("turn_keys", "'[]'"),
        _text("session"),
        _text("agent"),
        _text("branch"),
        _text("base_branch"),
        sa.Column("pr_number", BIG, nullable=True),
        _text("question"),
        sa.Column("wake_at", sa.Text, nullable=True),
        sa.Column("parent_task", sa.Text, nullable=True),
        _text("status_token"),
        _text("status_digest"),
        _moment("created_at"),
        _moment("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sa.UniqueConstraint(
            "repo_full_name", "issue_number", "flow", name="uq_tasks_repo_full_name"
        ),
    )
    op.create_index("ix_tasks_state", "tasks", ["state", "order"])


def _pull_requests() -> None:
    op.create_table(
        "pull_requests",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("pr_number", BIG, nullable=False),
        sa.Column("issue_number", BIG, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("branch", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        _text("last_seen_head_sha"),
        _count("turns_without_person"),
        _text("url"),
        _moment("created_at"),
        _moment("updated_at"),
        sa.PrimaryKeyConstraint("repo_full_name", "pr_number", name="pk_pull_requests"),
    )
    op.create_index("ix_pull_requests_status", "pull_requests", ["repo_full_name", "status"])
    op.create_index("ix_pull_requests_task", "pull_requests", ["task"])


def _issue_comment_cursors() -> None:
    zero = sa.text("0")
    op.create_table(
        "issue_comment_cursors",
        sa.Column("repo_full_name", sa.Text, nullable=False),
        sa.Column("issue_number", BIG, nullable=False),
        sa.Column("pre_pr_last_consumed_comment_id", BIG, nullable=False, server_default=zero),
        sa.Column("post_pr_last_redirected_comment_id", BIG, nullable=False, server_default=zero),
        _moment("updated_at"),
        sa.PrimaryKeyConstraint("repo_full_name", "issue_number", name="pk_issue_comment_cursors"),
    )
