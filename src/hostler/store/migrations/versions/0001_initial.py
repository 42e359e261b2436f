"""All tables of the first release."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from hostler.store.schema import BIG, UtcNow

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table and index."""
    _create_scheduling_turns()
    _create_inbox()
    _create_outbox()
    _create_feedback_events()
    _create_github_feed_pages()
    _create_github_changed_pull_requests()
    _create_tasks()
    _create_issue_states()
    _create_pull_requests()
    _create_issue_comment_cursors()
    _create_audit_entries()
    _create_runs()
    _create_pauses()
    _create_notices()
    _create_operator_commands()
    _create_runtime_operations()
    _create_limit_signals()
    _create_pool_samples()
    _create_poll_hours()
    _create_leases()
    _create_demand()
    _create_pools()
    _create_store_meta()
    _create_repositories()
    _create_github_comment_poll_cursors()
    _create_action_tokens()


def _text(name: str, default: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=_literal(default))


def _optional_text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=True)


def _time(name: str) -> sa.Column[str]:
    """Return a column whose default is the current time."""
    return sa.Column(name, sa.Text, nullable=False, server_default=UtcNow())


def _integer(name: str, default: str | None = None) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=_literal(default))


def _big(name: str, default: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, BIG, nullable=False, server_default=_literal(default))


def _double(name: str, default: str | None = None) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False, server_default=_literal(default))


def _literal(default: str | None) -> sa.TextClause | None:
    return None if default is None else sa.text(default)


def _create_scheduling_turns() -> None:
    op.create_table(
        "scheduling_turns",
        _text("project"),
        _big("turn"),
        sa.PrimaryKeyConstraint("project", name="pk_scheduling_turns"),
    )


def _create_inbox() -> None:
    op.create_table(
        "inbox",
        _big("sequence"),
        _text("repo_full_name"),
        _text("event_key"),
        _text("kind"),
        _big("scope_number"),
        _big("object_id"),
        _text("author"),
        _text("updated_at"),
        _text("payload"),
        _time("received_at"),
        _optional_text("consumed_at"),
        _optional_text("deferred_at"),
        sa.PrimaryKeyConstraint("sequence", name="pk_inbox"),
        sa.UniqueConstraint("repo_full_name", "event_key", name="uq_inbox_repo_full_name"),
    )
    op.create_index("ix_inbox_object", "inbox", ["repo_full_name", "kind", "object_id"])
    op.create_index(
        "ix_inbox_pending",
        "inbox",
        ["repo_full_name", "consumed_at", "scope_number", "deferred_at"],
    )
    op.create_index("ix_inbox_thread", "inbox", ["repo_full_name", "scope_number", "kind"])


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        _big("sequence"),
        _text("repo_full_name"),
        _text("token"),
        _text("scope_kind"),
        _big("scope_number"),
        _text("lane"),
        _text("kind"),
        _text("payload"),
        _optional_text("depends_on"),
        _text("state"),
        _integer("attempts", "0"),
        _integer("setbacks", "0"),
        _text("not_before"),
        _optional_text("intent_at"),
        _optional_text("attempted_at"),
        _optional_text("error_kind"),
        _optional_text("last_error"),
        sa.Column("result_id", BIG, nullable=True),
        sa.Column("result_number", BIG, nullable=True),
        _optional_text("result_url"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("sequence", name="pk_outbox"),
        sa.UniqueConstraint("repo_full_name", "token", name="uq_outbox_repo_full_name"),
    )
    op.create_index("ix_outbox_result", "outbox", ["repo_full_name", "result_id"])
    op.create_index("ix_outbox_state", "outbox", ["state", "sequence"])


def _create_feedback_events() -> None:
    op.create_table(
        "feedback_events",
        _text("repo_full_name"),
        _text("event_key"),
        _big("pr_number"),
        _big("issue_number"),
        _text("kind"),
        _big("comment_id"),
        _text("updated_at"),
        _time("created_at"),
        _optional_text("processed_at"),
        sa.PrimaryKeyConstraint("repo_full_name", "event_key", name="pk_feedback_events"),
    )
    op.create_index(
        "ix_feedback_events_comment", "feedback_events", ["repo_full_name", "kind", "comment_id"]
    )
    op.create_index(
        "ix_feedback_events_issue",
        "feedback_events",
        ["repo_full_name", "issue_number", "processed_at"],
    )
    op.create_index(
        "ix_feedback_events_pending",
        "feedback_events",
        ["repo_full_name", "pr_number", "processed_at"],
    )


def _create_github_feed_pages() -> None:
    op.create_table(
        "github_feed_pages",
        _text("repo_full_name"),
        _text("surface"),
        sa.Column("scope_number", BIG, nullable=False, autoincrement=False),
        _text("pages"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint(
            "repo_full_name", "surface", "scope_number", name="pk_github_feed_pages"
        ),
    )


def _create_github_changed_pull_requests() -> None:
    op.create_table(
        "github_changed_pull_requests",
        _text("repo_full_name"),
        sa.Column("pr_number", BIG, nullable=False, autoincrement=False),
        _time("marked_at"),
        sa.PrimaryKeyConstraint(
            "repo_full_name", "pr_number", name="pk_github_changed_pull_requests"
        ),
    )


def _create_tasks() -> None:
    op.create_table(
        "tasks",
        _text("id"),
        _text("project"),
        _optional_text("repo_full_name"),
        sa.Column("issue_number", BIG, nullable=True),
        _text("flow"),
        _text("title"),
        _text("author"),
        _text("approved_by", "''"),
        _text("issue_key", "''"),
        _text("body_digest", "''"),
        _text("state"),
        _text("state_since"),
        _text("reason", "''"),
        _big("order"),
        _integer("turn", "0"),
        _integer("attempt", "0"),
        _integer("exits_without_progress", "0"),
        _integer("repair_rounds", "0"),
        _integer("requeues", "0"),
        _integer("finishing", "0"),
        _text("progress", "''"),
        _text("note", "''"),
        _text("turn_keys", "'[]'"),
        _text("session", "''"),
        _text("agent", "''"),
        _text("branch", "''"),
        _text("base_branch", "''"),
        sa.Column("pr_number", BIG, nullable=True),
        _text("question", "''"),
        _optional_text("wake_at"),
        _optional_text("parent_task"),
        _text("status_token", "''"),
        _text("status_digest", "''"),
        _time("created_at"),
        _time("updated_at"),
        _text("prompt", "''"),
        _text("cwd", "''"),
        _text("env", "'[]'"),
        _text("depends_on", "'[]'"),
        _text("blockers", "''"),
        _text("gate", "''"),
        _optional_text("gate_since"),
        _integer("wall_limit_minutes", "0"),
        sa.Column("max_restarts", sa.Integer, nullable=True),
        _integer("outages", "0"),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sa.UniqueConstraint(
            "repo_full_name", "issue_number", "flow", name="uq_tasks_repo_full_name"
        ),
    )
    op.create_index("ix_tasks_parent_task", "tasks", ["parent_task"])
    op.create_index("ix_tasks_state", "tasks", ["state", "order"])
    op.create_index("ix_tasks_updated_at", "tasks", ["updated_at"])


def _create_issue_states() -> None:
    op.create_table(
        "issue_states",
        _text("repo_full_name"),
        sa.Column("issue_number", BIG, nullable=False, autoincrement=False),
        _text("state"),
        _text("title", "''"),
        _text("seen_at"),
        sa.PrimaryKeyConstraint("repo_full_name", "issue_number", name="pk_issue_states"),
    )


def _create_pull_requests() -> None:
    op.create_table(
        "pull_requests",
        _text("repo_full_name"),
        sa.Column("pr_number", BIG, nullable=False, autoincrement=False),
        _big("issue_number"),
        _text("task"),
        _text("branch"),
        _text("status"),
        _text("last_seen_head_sha", "''"),
        _integer("turns_without_person", "0"),
        _text("url", "''"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("repo_full_name", "pr_number", name="pk_pull_requests"),
    )
    op.create_index("ix_pull_requests_status", "pull_requests", ["repo_full_name", "status"])
    op.create_index("ix_pull_requests_task", "pull_requests", ["task"])


def _create_issue_comment_cursors() -> None:
    op.create_table(
        "issue_comment_cursors",
        _text("repo_full_name"),
        sa.Column("issue_number", BIG, nullable=False, autoincrement=False),
        _big("pre_pr_last_consumed_comment_id", "0"),
        _big("post_pr_last_redirected_comment_id", "0"),
        _time("updated_at"),
        _text("comments_since", "''"),
        sa.PrimaryKeyConstraint("repo_full_name", "issue_number", name="pk_issue_comment_cursors"),
    )


def _create_audit_entries() -> None:
    op.create_table(
        "audit_entries",
        _text("task_id"),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        _text("at"),
        _text("by"),
        _text("what"),
        _text("text"),
        _text("asked"),
        _optional_text("asked_at"),
        sa.PrimaryKeyConstraint("task_id", "number", name="pk_audit_entries"),
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        _text("run"),
        _text("task_id"),
        _text("project"),
        _integer("fence"),
        _integer("attempt"),
        _text("kind"),
        _text("agent"),
        _text("agent_kind"),
        _text("pool"),
        _text("state"),
        _optional_text("stop_why"),
        _text("folder"),
        _optional_text("shim"),
        _big("stdout_offset", "0"),
        _big("stderr_offset", "0"),
        _optional_text("tally"),
        _optional_text("outcome"),
        _optional_text("decided_by"),
        _optional_text("why"),
        _optional_text("result"),
        _optional_text("limit_signal"),
        sa.Column("exit_code", sa.Integer, nullable=True),
        _optional_text("ended_by"),
        _integer("counted", "1"),
        _big("input_tokens", "0"),
        _big("output_tokens", "0"),
        _big("cached_tokens", "0"),
        _double("usd", "0"),
        _optional_text("session"),
        _text("admitted_at"),
        _optional_text("starting_at"),
        _optional_text("running_at"),
        _optional_text("exited_at"),
        _optional_text("finishing_at"),
        _optional_text("ended_at"),
        _optional_text("slot_released_at"),
        _optional_text("slot_released_by"),
        _optional_text("slot_requested_at"),
        sa.PrimaryKeyConstraint("run", name="pk_runs"),
        sa.UniqueConstraint("task_id", "fence", name="uq_runs_task_id"),
    )
    op.create_index("ix_runs_exited_at", "runs", ["exited_at"])
    not_ended = sa.text("state <> 'ended'")
    op.create_index(
        "ix_runs_open",
        "runs",
        ["task_id"],
        unique=True,
        sqlite_where=not_ended,
        postgresql_where=not_ended,
    )
    op.create_index("ix_runs_state", "runs", ["state"])


def _create_pauses() -> None:
    op.create_table(
        "pauses",
        _text("scope"),
        _text("since"),
        _text("by"),
        _text("why"),
        sa.PrimaryKeyConstraint("scope", name="pk_pauses"),
    )


def _create_notices() -> None:
    op.create_table(
        "notices",
        _text("key"),
        _text("occasion"),
        _text("title", "''"),
        _text("body", "''"),
        _text("url", "''"),
        _text("state"),
        _integer("attempts", "0"),
        _text("not_before"),
        _text("last_error", "''"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("key", name="pk_notices"),
    )
    op.create_index("ix_notices_state", "notices", ["state", "not_before"])


def _create_operator_commands() -> None:
    op.create_table(
        "operator_commands",
        _text("command_key"),
        _text("repo_full_name"),
        _big("thread_number"),
        _big("comment_id"),
        _text("actor"),
        _text("verb"),
        _text("arguments", "'{}'"),
        _text("status"),
        _text("result", "''"),
        _text("said_at"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("command_key", name="pk_operator_commands"),
    )
    op.create_index(
        "ix_operator_commands_status", "operator_commands", ["repo_full_name", "status"]
    )
    op.create_index(
        "ix_operator_commands_thread", "operator_commands", ["repo_full_name", "thread_number"]
    )


def _create_runtime_operations() -> None:
    op.create_table(
        "runtime_operations",
        _text("op_name"),
        _text("status"),
        _text("requested_by"),
        _optional_text("command_key"),
        _optional_text("repo_full_name"),
        _text("detail", "''"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("op_name", name="pk_runtime_operations"),
    )


def _create_limit_signals() -> None:
    op.create_table(
        "limit_signals",
        _text("run"),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        _text("at"),
        _text("pool"),
        _text("task_id"),
        _text("project"),
        _text("source"),
        _text("reason"),
        _integer("status", "0"),
        _double("retry_after_seconds", "0"),
        _text("resets_at", "''"),
        _integer("times", "1"),
        sa.PrimaryKeyConstraint("run", "number", name="pk_limit_signals"),
    )
    op.create_index("ix_limit_signals_at", "limit_signals", ["at"])
    op.create_index("ix_limit_signals_pool", "limit_signals", ["pool", "at"])


def _create_pool_samples() -> None:
    op.create_table(
        "pool_samples",
        _text("pool"),
        _text("at"),
        _integer("ceiling"),
        _integer("cap"),
        _integer("active"),
        _text("breaker"),
        _integer("parked"),
        sa.PrimaryKeyConstraint("pool", "at", name="pk_pool_samples"),
    )
    op.create_index("ix_pool_samples_at", "pool_samples", ["at"])


def _create_poll_hours() -> None:
    op.create_table(
        "poll_hours",
        _text("project"),
        _text("hour"),
        _integer("polls"),
        _integer("late"),
        _integer("failed"),
        _double("lag_seconds"),
        _double("worst_seconds"),
        _text("last_at"),
        _double("last_seconds"),
        _text("late_since", "''"),
        sa.PrimaryKeyConstraint("project", "hour", name="pk_poll_hours"),
    )
    op.create_index("ix_poll_hours_hour", "poll_hours", ["hour"])


def _create_leases() -> None:
    op.create_table(
        "leases",
        _text("lease"),
        _text("pool"),
        _text("project"),
        _text("task_id", "''"),
        _text("program", "''"),
        _text("model", "''"),
        _big("engine_pid", "0"),
        _text("host"),
        _text("boot_id"),
        _text("pid_namespace"),
        _big("pid"),
        _big("start_ticks"),
        _integer("released", "0"),
        _text("acquired_at"),
        _optional_text("attached_at"),
        _text("seen_at"),
        sa.PrimaryKeyConstraint("lease", name="pk_leases"),
        sa.CheckConstraint("released IN (0, 1)", name="ck_leases_lent"),
    )
    op.create_index("ix_leases_pool", "leases", ["pool", "released"])
    op.create_index("ix_leases_project", "leases", ["project", "pool", "released"])


def _create_demand() -> None:
    op.create_table(
        "demand",
        _text("pool"),
        _text("project"),
        _text("host"),
        _text("boot_id"),
        _text("pid_namespace"),
        sa.Column("engine_pid", BIG, nullable=False, autoincrement=False),
        sa.Column("start_ticks", BIG, nullable=False, autoincrement=False),
        sa.Column("wanted", sa.Integer, nullable=True),
        _integer("weight", "1"),
        _integer("width", "0"),
        _text("updated_at"),
        sa.PrimaryKeyConstraint(
            "pool",
            "project",
            "host",
            "boot_id",
            "pid_namespace",
            "engine_pid",
            "start_ticks",
            name="pk_demand",
        ),
    )


def _create_pools() -> None:
    op.create_table(
        "pools",
        _text("pool"),
        _optional_text("parked_at"),
        _optional_text("parked_until"),
        _text("parked_why", "''"),
        _text("adaptive_state", "''"),
        _text("parked_run", "''"),
        sa.PrimaryKeyConstraint("pool", name="pk_pools"),
    )


def _create_store_meta() -> None:
    op.create_table(
        "store_meta",
        _text("key"),
        _text("value"),
        sa.PrimaryKeyConstraint("key", name="pk_store_meta"),
    )


def _create_repositories() -> None:
    op.create_table(
        "repositories",
        _text("repo_full_name"),
        sa.Column("github_id", BIG, nullable=True),
        _time("added_at"),
        sa.PrimaryKeyConstraint("repo_full_name", name="pk_repositories"),
        sa.UniqueConstraint("github_id", name="uq_repositories_github_id"),
    )


def _create_github_comment_poll_cursors() -> None:
    op.create_table(
        "github_comment_poll_cursors",
        _text("repo_full_name"),
        _text("surface"),
        sa.Column("scope_number", BIG, nullable=False, autoincrement=False),
        _text("last_updated_at"),
        _big("last_comment_id"),
        _integer("bootstrap_complete", "0"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint(
            "repo_full_name", "surface", "scope_number", name="pk_github_comment_poll_cursors"
        ),
    )


def _create_action_tokens() -> None:
    op.create_table(
        "action_tokens",
        _text("repo_full_name"),
        _text("token"),
        _text("scope_kind"),
        _big("scope_number"),
        _text("source"),
        _text("status"),
        _integer("attempt_count", "0"),
        sa.Column("observed_comment_id", BIG, nullable=True),
        _optional_text("observed_updated_at"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("repo_full_name", "token", name="pk_action_tokens"),
    )
    op.create_index(
        "ix_action_tokens_scope_status",
        "action_tokens",
        ["repo_full_name", "scope_kind", "scope_number", "status"],
    )
    op.create_index("ix_action_tokens_status", "action_tokens", ["status", "updated_at"])
