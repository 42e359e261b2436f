"""All tables and their column types. A test proves that the migrations build exactly this."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


# GitHub's ids exceed 32 bits, which is all that INTEGER has on PostgreSQL.
BIG = BigInteger().with_variant(Integer, "sqlite")
EMPTY = text("''")
ZERO = text("0")


class UtcNow(FunctionElement[str]):
    """The current UTC time in the stored format, as an SQL expression."""

    type = Text()
    name = "utc_now"
    inherit_cache = True


@compiles(UtcNow, "sqlite")
def _sqlite(_element: UtcNow, _compiler: Any, **_options: Any) -> str:
    return "strftime('%Y-%m-%dT%H:%M:%fZ','now')"


@compiles(UtcNow, "postgresql")
def _postgresql(_element: UtcNow, _compiler: Any, **_options: Any) -> str:
    return "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"


scheduling_turns = Table(
    "scheduling_turns",
    metadata,
    Column("project", Text, primary_key=True),
    Column("turn", BIG, nullable=False),
)


# Every event received from GitHub, in order of arrival. A new version has a new event key.
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
    Column("received_at", Text, nullable=False, server_default=UtcNow()),
    Column("consumed_at", Text, nullable=True),
    Column("deferred_at", Text, nullable=True),
    UniqueConstraint("repo_full_name", "event_key"),
    Index("ix_inbox_pending", "repo_full_name", "consumed_at", "scope_number", "deferred_at"),
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
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
    UniqueConstraint("repo_full_name", "token"),
    Index("ix_outbox_state", "state", "sequence"),
    Index("ix_outbox_result", "repo_full_name", "result_id"),
)

# Comments on pull requests, until an agent has addressed them.
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
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("processed_at", Text, nullable=True),
    Index("ix_feedback_events_pending", "repo_full_name", "pr_number", "processed_at"),
)


# The pages of the last complete reading of a list, with their ETags, as JSON.
feed_pages = Table(
    "github_feed_pages",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("surface", Text, primary_key=True),
    Column("scope_number", BIG, primary_key=True, autoincrement=False),
    Column("pages", Text, nullable=False),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
)

# Pull requests that a feed has reported as changed, until they are fetched.
changed_pull_requests = Table(
    "github_changed_pull_requests",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("pr_number", BIG, primary_key=True, autoincrement=False),
    Column("marked_at", Text, nullable=False, server_default=UtcNow()),
)


# One piece of work for an agent: one per issue and flow. A manual task has no repository.
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
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
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
    Index("ix_tasks_updated_at", "updated_at"),
)

# Issues that tasks depend on, in their last known state.
issue_states = Table(
    "issue_states",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("issue_number", BIG, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("title", Text, nullable=False, server_default=EMPTY),
    Column("seen_at", Text, nullable=False),
)

# Every pull request that Hostler opened.
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
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
    Index("ix_pull_requests_status", "repo_full_name", "status"),
    Index("ix_pull_requests_task", "task"),
)

# Which comments of an issue went to an agent before its pull request, and which were redirected.
issue_comment_cursors = Table(
    "issue_comment_cursors",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("issue_number", BIG, primary_key=True, autoincrement=False),
    Column("pre_pr_last_consumed_comment_id", BIG, nullable=False, server_default=ZERO),
    Column("post_pr_last_redirected_comment_id", BIG, nullable=False, server_default=ZERO),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
    Column("comments_since", Text, nullable=False, server_default=EMPTY),
)

# Find other versions of an object, all events of a thread, comments of an issue, and one comment.
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


# What users did with a task, in order. `asked` and `asked_at`: the question that was answered.
audit_entries = Table(
    "audit_entries",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("asked_at", Text, nullable=True),
)


NOT_ENDED = text("state <> 'ended'")

runs = Table(
    "runs",
    metadata,
    Column("run", Text, primary_key=True),
    Column("task_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("agent_kind", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("stop_why", Text, nullable=True),
    Column("folder", Text, nullable=False),
    Column("shim", Text, nullable=True),
    Column("stdout_offset", BIG, nullable=False, server_default=text("0")),
    Column("stderr_offset", BIG, nullable=False, server_default=text("0")),
    Column("tally", Text, nullable=True),
    Column("outcome", Text, nullable=True),
    Column("decided_by", Text, nullable=True),
    Column("why", Text, nullable=True),
    Column("result", Text, nullable=True),
    Column("limit_signal", Text, nullable=True),
    Column("exit_code", Integer, nullable=True),
    Column("ended_by", Text, nullable=True),
    Column("counted", Integer, nullable=False, server_default=text("1")),
    Column("input_tokens", BIG, nullable=False, server_default=text("0")),
    Column("output_tokens", BIG, nullable=False, server_default=text("0")),
    Column("cached_tokens", BIG, nullable=False, server_default=text("0")),
    Column("usd", Double, nullable=False, server_default=text("0")),
    Column("session", Text, nullable=True),
    Column("admitted_at", Text, nullable=False),
    Column("starting_at", Text, nullable=True),
    Column("running_at", Text, nullable=True),
    Column("exited_at", Text, nullable=True),
    Column("finishing_at", Text, nullable=True),
    Column("ended_at", Text, nullable=True),
    Column("slot_released_at", Text, nullable=True),
    Column("slot_released_by", Text, nullable=True),
    Column("slot_requested_at", Text, nullable=True),
    UniqueConstraint("task_id", "fence"),
    # A task never has two live agents: the database enforces it. The condition for PostgreSQL is
    # added there, since importing its dialect here would slow every start.
    Index("ix_runs_open", "task_id", unique=True, sqlite_where=NOT_ENDED),
    Index("ix_runs_state", "state"),
    Index("ix_runs_exited_at", "exited_at"),
)


pauses = Table(
    "pauses",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("since", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("why", Text, nullable=False),
)


# One row per cause, so that a restart repeats no notice.
notices = Table(
    "notices",
    metadata,
    Column("key", Text, primary_key=True),
    Column("occasion", Text, nullable=False),
    Column("title", Text, nullable=False, server_default=EMPTY),
    Column("body", Text, nullable=False, server_default=EMPTY),
    Column("url", Text, nullable=False, server_default=EMPTY),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("not_before", Text, nullable=False),
    Column("last_error", Text, nullable=False, server_default=EMPTY),
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
    Index("ix_notices_state", "state", "not_before"),
)


# Every operator command, for good: who wrote it where, and its result.
operator_commands = Table(
    "operator_commands",
    metadata,
    Column("command_key", Text, primary_key=True),
    Column("repo_full_name", Text, nullable=False),
    Column("thread_number", BIG, nullable=False),
    Column("comment_id", BIG, nullable=False),
    Column("actor", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("arguments", Text, nullable=False, server_default=text("'{}'")),
    Column("status", Text, nullable=False),
    Column("result", Text, nullable=False, server_default=text("''")),
    # GitHub's time of the comment: commands are executed in this order.
    Column("said_at", Text, nullable=False),
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
    Index("ix_operator_commands_status", "repo_full_name", "status"),
    Index("ix_operator_commands_thread", "repo_full_name", "thread_number"),
)

# Operations on the whole service, one row for each kind.
runtime_operations = Table(
    "runtime_operations",
    metadata,
    Column("op_name", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("command_key", Text, nullable=True),
    Column("repo_full_name", Text, nullable=True),
    Column("detail", Text, nullable=False, server_default=text("''")),
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
)


# One row per signal; repetitions within one reading of a stream are one row.
limit_signals = Table(
    "limit_signals",
    metadata,
    Column("run", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("status", Integer, nullable=False, server_default=text("0")),
    Column("retry_after_seconds", Double, nullable=False, server_default=text("0")),
    Column("resets_at", Text, nullable=False, server_default=text("''")),
    Column("times", Integer, nullable=False, server_default=text("1")),
    Index("ix_limit_signals_pool", "pool", "at"),
    Index("ix_limit_signals_at", "at"),
)


# A sample of a pool. An unchanged pool gets one every few minutes only.
pool_samples = Table(
    "pool_samples",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("at", Text, primary_key=True),
    Column("ceiling", Integer, nullable=False),
    Column("cap", Integer, nullable=False),
    Column("active", Integer, nullable=False),
    Column("breaker", Text, nullable=False),
    Column("parked", Integer, nullable=False),
    Index("ix_pool_samples_at", "at"),
)

# Polls of a repository that completed in an hour: how many, how late, and the last of them.
poll_hours = Table(
    "poll_hours",
    metadata,
    Column("project", Text, primary_key=True),
    Column("hour", Text, primary_key=True),
    Column("polls", Integer, nullable=False),
    Column("late", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("lag_seconds", Double, nullable=False),
    Column("worst_seconds", Double, nullable=False),
    Column("last_at", Text, nullable=False),
    Column("last_seconds", Double, nullable=False),
    Column("late_since", Text, nullable=False, server_default=text("''")),
    Index("ix_poll_hours_hour", "hour"),
)


# One per agent that runs or is about to. The holder is a process.
leases = Table(
    "leases",
    metadata,
    Column("lease", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("task_id", Text, nullable=False, server_default=EMPTY),
    Column("program", Text, nullable=False, server_default=EMPTY),
    Column("model", Text, nullable=False, server_default=EMPTY),
    Column("engine_pid", BIG, nullable=False, server_default=ZERO),
    Column("host", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("pid_namespace", Text, nullable=False),
    Column("pid", BIG, nullable=False),
    Column("start_ticks", BIG, nullable=False),
    Column("released", Integer, nullable=False, server_default=ZERO),
    Column("acquired_at", Text, nullable=False),
    Column("attached_at", Text, nullable=True),
    Column("seen_at", Text, nullable=False),
    # Any other value would be counted by no query.
    CheckConstraint("released IN (0, 1)", name="ck_leases_lent"),
    Index("ix_leases_pool", "pool", "released"),
    Index("ix_leases_project", "project", "pool", "released"),
)

# One per process that has work for a project in a pool; no number: it is unknown.
demand = Table(
    "demand",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("boot_id", Text, primary_key=True),
    Column("pid_namespace", Text, primary_key=True),
    Column("engine_pid", BIG, primary_key=True, autoincrement=False),
    Column("start_ticks", BIG, primary_key=True, autoincrement=False),
    Column("wanted", Integer, nullable=True),
    Column("weight", Integer, nullable=False, server_default=text("1")),
    Column("width", Integer, nullable=False, server_default=ZERO),
    Column("updated_at", Text, nullable=False),
)

# What is known of a pool. Its cap is the operator's, in governor.json.
pools = Table(
    "pools",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("parked_at", Text, nullable=True),
    Column("parked_until", Text, nullable=True),
    Column("parked_why", Text, nullable=False, server_default=EMPTY),
    # JSON, empty if there is none. Only the governor reads it.
    Column("adaptive_state", Text, nullable=False, server_default=EMPTY),
    # The only run that reported the limit; empty if there are others.
    Column("parked_run", Text, nullable=False, server_default=EMPTY),
)


# Facts about the database: its id, and when and by which program it was created.
store_meta = Table(
    "store_meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# Known repositories. GitHub's id stays when a repository is renamed.
repositories = Table(
    "repositories",
    metadata,
    Column("repo_full_name", Text, primary_key=True),
    Column("github_id", BIG, nullable=True, unique=True),
    Column("added_at", Text, nullable=False, server_default=UtcNow()),
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
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
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
    Column("created_at", Text, nullable=False, server_default=UtcNow()),
    Column("updated_at", Text, nullable=False, server_default=UtcNow()),
    Index(
        "ix_action_tokens_scope_status", "repo_full_name", "scope_kind", "scope_number", "status"
    ),
    Index("ix_action_tokens_status", "status", "updated_at"),
)


def tables_with_a_repository() -> list[Table]:
    """Return the tables whose rows belong to a repository: a rename must reach all of them."""
    return [table for table in metadata.sorted_tables if "repo_full_name" in table.c]
