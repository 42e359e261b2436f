"""Every log event and metric, declared once. docs/reference/events-and-metrics.md lists them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LogLevel(StrEnum):
    """Severity of a log event."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Position of the level, from least to most severe."""
        return list(LogLevel).index(self)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A kind of log event: name, level, meaning, and the fields it has."""

    name: str
    level: LogLevel
    meaning: str
    fields: tuple[str, ...] = ()


class MetricKind(StrEnum):
    """Kinds of Prometheus metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: name, kind, meaning, and its labels."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()


COMMAND_FAILED = LogEvent(
    "command_failed", LogLevel.ERROR, "A command failed with an error.", ("command", "error")
)
FOREIGN_LOG = LogEvent(
    "foreign_log", LogLevel.INFO, "A library logged a message.", ("logger", "message")
)
LOG_LINES_DROPPED = LogEvent(
    "log_lines_dropped",
    LogLevel.WARNING,
    "Earlier log lines could not be written.",
    ("count", "reason"),
)
STORE_UPGRADED = LogEvent(
    "store_upgraded",
    LogLevel.INFO,
    "The database was upgraded to this program's schema version.",
    ("from_revision", "to_revision", "backup"),
)
STORE_BACKED_UP = LogEvent(
    "store_backed_up", LogLevel.INFO, "The database was backed up.", ("backup",)
)
STORE_RESTORED = LogEvent(
    "store_restored",
    LogLevel.WARNING,
    "The database was restored from a backup.",
    ("backup", "kept"),
)

OPERATOR_COMMAND_SEEN = LogEvent(
    "operator_command_seen",
    LogLevel.INFO,
    "An operator command was received.",
    ("repo", "number", "actor", "verb", "key"),
)
OPERATOR_COMMAND_APPLIED = LogEvent(
    "operator_command_applied",
    LogLevel.INFO,
    "An operator command was executed; for a restart: it was requested.",
    ("repo", "number", "actor", "verb", "key"),
)
OPERATOR_COMMAND_FAILED = LogEvent(
    "operator_command_failed",
    LogLevel.WARNING,
    "An operator command failed.",
    ("repo", "number", "actor", "verb", "key", "why"),
)
OPERATOR_COMMAND_REFUSED = LogEvent(
    "operator_command_refused",
    LogLevel.INFO,
    "An operator command was invalid, or its author is not an operator.",
    ("repo", "number", "actor", "key"),
)

BUDGET_LOW = LogEvent(
    "budget_low",
    LogLevel.WARNING,
    "A budget is nearly or completely used up.",
    ("task", "setting", "used_usd", "limit_usd"),
)

NOTICE_SENT = LogEvent(
    "notice_sent", LogLevel.INFO, "A notification was sent.", ("occasion", "key")
)
NOTICE_FAILED = LogEvent(
    "notice_failed", LogLevel.WARNING, "A notification failed finally.", ("occasion", "key", "why")
)

SERVICE_STARTED = LogEvent(
    "service_started", LogLevel.INFO, "The service started.", ("home", "repos", "workers")
)
SERVICE_LEFT = LogEvent(
    "service_left", LogLevel.INFO, "The service stopped; `agents` keep running.", ("agents",)
)
SERVICE_REPO_POLLED = LogEvent(
    "service_repo_polled",
    LogLevel.INFO,
    "A repository was polled: new events, changed tasks, requests, tasks by state.",
    ("repo", "new", "changed", "requests", "queued", "running", "waiting"),
)
SERVICE_GLOBAL_CAPACITY = LogEvent(
    "service_global_capacity",
    LogLevel.INFO,
    "Number of busy workers, and their limit.",
    ("in_flight", "capacity"),
)
_DRAIN_FIELDS = ("pending", "seconds")
SERVICE_RESTART_DRAIN_STARTED = LogEvent(
    "service_restart_drain_started",
    LogLevel.INFO,
    "A restart was requested: no new work starts.",
    _DRAIN_FIELDS,
)
SERVICE_RESTART_DRAIN_PROGRESS = LogEvent(
    "service_restart_drain_progress",
    LogLevel.INFO,
    "The number of pending futures changed.",
    _DRAIN_FIELDS,
)
SERVICE_RESTART_DRAIN_COMPLETED = LogEvent(
    "service_restart_drain_completed",
    LogLevel.INFO,
    "No future is pending: the service restarts.",
    _DRAIN_FIELDS,
)
SERVICE_RESTART_DRAIN_TIMEOUT = LogEvent(
    "service_restart_drain_timeout",
    LogLevel.WARNING,
    "Work took too long: the restart is given up, and new work starts again.",
    _DRAIN_FIELDS,
)
SERVICE_RESTARTED = LogEvent(
    "service_restarted",
    LogLevel.INFO,
    "The service has restarted.",
    ("version", "requested_by"),
)
SERVICE_RESTART_FAILED = LogEvent(
    "service_restart_failed",
    LogLevel.ERROR,
    "An update or its check failed; `why` says which version runs now.",
    ("why",),
)
SERVICE_UPDATE = LogEvent(
    "service_update",
    LogLevel.INFO,
    "A command of an update exited; `output` is the end of its output.",
    ("step", "exit_code", "output"),
)
SERVICE_SETTINGS_CHANGED = LogEvent(
    "service_settings_changed",
    LogLevel.INFO,
    "Changed settings were applied; those in `waiting` need a restart.",
    ("taken", "waiting"),
)
SERVICE_SETTINGS_REFUSED = LogEvent(
    "service_settings_refused",
    LogLevel.WARNING,
    "The settings file has mistakes: the previous settings stay effective.",
    ("why",),
)
SERVICE_TROUBLED = LogEvent(
    "service_troubled",
    LogLevel.WARNING,
    "An operation of the service failed and is retried.",
    ("why",),
)
SERVICE_DEFECT = LogEvent(
    "service_defect",
    LogLevel.ERROR,
    "An unexpected error (a bug) occurred.",
    ("error", "traceback"),
)
REPO_POLL_FAILED = LogEvent(
    "repo_poll_failed",
    LogLevel.WARNING,
    "A poll failed; it is retried with increasing delays.",
    ("repo", "why", "failures"),
)
REPO_POLL_HELD = LogEvent(
    "repo_poll_held",
    LogLevel.WARNING,
    "A poll was delayed because Hostler's share of GitHub's rate limit is used up.",
    ("repo", "why"),
)
DISK_LOW = LogEvent(
    "disk_low",
    LogLevel.WARNING,
    "A disk has too little free space: no new work starts.",
    ("why",),
)
DISK_FREE = LogEvent(
    "disk_free", LogLevel.INFO, "The disk has enough free space again: new work starts."
)
TASK_ADMITTED = LogEvent(
    "task_admitted",
    LogLevel.INFO,
    "A task was admitted and has its lease.",
    ("task", "run", "kind", "agent", "attempt"),
)
RUN_ADOPTED = LogEvent(
    "run_adopted",
    LogLevel.INFO,
    "A run that an earlier service started was taken over.",
    ("task", "run", "state", "action"),
)
RUN_STOP_ASKED = LogEvent(
    "run_stop_asked", LogLevel.INFO, "An agent was asked to stop.", ("run", "task", "why")
)
WORK_ENDED = LogEvent("work_ended", LogLevel.INFO, "A worker finished.", ("name", "project"))
WORK_TROUBLED = LogEvent(
    "work_troubled",
    LogLevel.WARNING,
    "A worker failed and is retried.",
    ("name", "project", "why", "tries"),
)
CHECKOUT_CLEANED = LogEvent(
    "checkout_cleaned", LogLevel.INFO, "The checkout of a finished task was deleted.", ("task",)
)
CHECKOUT_KEPT = LogEvent(
    "checkout_kept",
    LogLevel.WARNING,
    "A checkout was kept because it contains unsaved work.",
    ("task", "why"),
)
PROMPT_REFUSED = LogEvent(
    "prompt_refused",
    LogLevel.WARNING,
    "A repository's own prompt template cannot be used; the default is.",
    ("repo", "why"),
)
TOKEN_RECONCILE_TIMEOUT = LogEvent(
    "token_reconcile_timeout",
    LogLevel.WARNING,
    "A write that GitHub accepted cannot be found there.",
    ("repo", "token", "number", "looks"),
)
PROJECT_TOO_WIDE = LogEvent(
    "project_too_wide",
    LogLevel.WARNING,
    "A project's width exceeds its fair share of a pool.",
    ("pool", "project", "why"),
)
GOVERNOR_CAP_CHANGED = LogEvent(
    "governor_cap_changed",
    LogLevel.INFO,
    "The adaptive cap of a pool changed.",
    ("pool", "before", "cap", "rate_limit_events"),
)
GOVERNOR_BREAKER_CHANGED = LogEvent(
    "governor_breaker_changed",
    LogLevel.WARNING,
    "A pool's breaker opened, half-opened or closed.",
    ("pool", "state"),
)
GOVERNOR_DAMAGED = LogEvent(
    "governor_damaged",
    LogLevel.WARNING,
    "The adaptive state of a pool is damaged: safe defaults are used.",
    ("pool",),
)
TASK_FOUND_LOST = LogEvent(
    "task_found_lost",
    LogLevel.WARNING,
    "A task was marked running without a worker; it is rescheduled.",
    ("task", "project"),
)
GC_SWEPT = LogEvent("gc_swept", LogLevel.INFO, "Old data was deleted.", ("kind", "count", "bytes"))
INCREMENTAL_SCAN_STARTED = LogEvent(
    "incremental_scan_started",
    LogLevel.DEBUG,
    "An incremental scan of a repository started.",
    ("repo",),
)
INCREMENTAL_SCAN_COMPLETED = LogEvent(
    "incremental_scan_completed",
    LogLevel.DEBUG,
    "An incremental scan is finished and its changes are stored.",
    ("repo", "new", "replayed", "requests"),
)
INCREMENTAL_SCAN_BACKFILL = LogEvent(
    "incremental_scan_backfill",
    LogLevel.INFO,
    "A list is read from further back: the first time, after a reset, or after a pause.",
    ("repo", "surface", "number", "since"),
)
CURSOR_INVALID = LogEvent(
    "cursor_invalid",
    LogLevel.WARNING,
    "A cursor is invalid and was set back.",
    ("repo", "surface", "number", "found"),
)
TOKEN_OBSERVED = LogEvent(
    "token_observed", LogLevel.INFO, "A write was observed on GitHub.", ("repo", "token")
)
SHADOW_DIFFERENCE = LogEvent(
    "shadow_difference",
    LogLevel.ERROR,
    "A full scan found an event that the feeds have missed.",
    ("repo", "key", "number"),
)

WEB_LISTENING = LogEvent(
    "web_listening",
    LogLevel.INFO,
    "The dashboard and API are listening; `wide`: reachable from other machines.",
    ("url", "wide"),
)
WEB_FAILED = LogEvent(
    "web_failed",
    LogLevel.ERROR,
    "A request to the API failed with an unexpected error.",
    ("method", "path"),
)
LIVE_CLIENT_DROPPED = LogEvent(
    "live_client_dropped",
    LogLevel.INFO,
    "A live client did not read its stream and was disconnected.",
    ("path",),
)

EVENTS = (
    WEB_LISTENING,
    WEB_FAILED,
    LIVE_CLIENT_DROPPED,
    COMMAND_FAILED,
    FOREIGN_LOG,
    LOG_LINES_DROPPED,
    STORE_UPGRADED,
    STORE_BACKED_UP,
    STORE_RESTORED,
    OPERATOR_COMMAND_SEEN,
    OPERATOR_COMMAND_APPLIED,
    OPERATOR_COMMAND_FAILED,
    OPERATOR_COMMAND_REFUSED,
    BUDGET_LOW,
    NOTICE_SENT,
    NOTICE_FAILED,
    SERVICE_STARTED,
    SERVICE_LEFT,
    SERVICE_REPO_POLLED,
    SERVICE_GLOBAL_CAPACITY,
    SERVICE_RESTART_DRAIN_STARTED,
    SERVICE_RESTART_DRAIN_PROGRESS,
    SERVICE_RESTART_DRAIN_COMPLETED,
    SERVICE_RESTART_DRAIN_TIMEOUT,
    SERVICE_RESTARTED,
    SERVICE_RESTART_FAILED,
    SERVICE_UPDATE,
    SERVICE_SETTINGS_CHANGED,
    SERVICE_SETTINGS_REFUSED,
    SERVICE_TROUBLED,
    SERVICE_DEFECT,
    REPO_POLL_FAILED,
    REPO_POLL_HELD,
    DISK_LOW,
    DISK_FREE,
    TASK_ADMITTED,
    RUN_ADOPTED,
    RUN_STOP_ASKED,
    WORK_ENDED,
    WORK_TROUBLED,
    CHECKOUT_CLEANED,
    CHECKOUT_KEPT,
    PROMPT_REFUSED,
    TOKEN_RECONCILE_TIMEOUT,
    PROJECT_TOO_WIDE,
    GOVERNOR_CAP_CHANGED,
    GOVERNOR_BREAKER_CHANGED,
    GOVERNOR_DAMAGED,
    TASK_FOUND_LOST,
    GC_SWEPT,
    INCREMENTAL_SCAN_STARTED,
    INCREMENTAL_SCAN_COMPLETED,
    INCREMENTAL_SCAN_BACKFILL,
    CURSOR_INVALID,
    TOKEN_OBSERVED,
    SHADOW_DIFFERENCE,
)

LOG_LINES = Metric("log_lines_total", MetricKind.COUNTER, "Log lines written.", ("level",))
LOG_LINES_LOST = Metric(
    "log_lines_dropped_total", MetricKind.COUNTER, "Log lines that could not be written."
)
STORE_TRANSACTIONS = Metric(
    "store_transactions_total",
    MetricKind.COUNTER,
    "Transactions, by kind (read, write, relaxed) and end (commit, rollback).",
    ("kind", "end"),
)
STORE_WRITE_WAIT = Metric(
    "store_write_wait_seconds", MetricKind.HISTOGRAM, "Wait for the database's write lock."
)
ACTION_TOKENS = Metric(
    "action_tokens_total",
    MetricKind.COUNTER,
    "Outgoing writes by status: planned, posted, observed, failed.",
    ("status", "source"),
)
ACTION_TOKEN_UNOBSERVED_AGE = Metric(
    "action_token_unobserved_age_seconds",
    MetricKind.GAUGE,
    "Age of the oldest write that GitHub accepted and no feed has shown yet.",
)
WEBHOOK_DELIVERIES = Metric(
    "webhook_deliveries_total",
    MetricKind.COUNTER,
    "Webhook deliveries by answer: 202 accepted, 403 forged, 409 duplicate, 413 too large.",
    ("answer",),
)
OPERATOR_COMMANDS_SEEN = Metric(
    "operator_commands_seen_total",
    MetricKind.COUNTER,
    "Operator commands received, from anyone.",
    ("verb",),
)
OPERATOR_COMMANDS_APPLIED = Metric(
    "operator_commands_applied_total",
    MetricKind.COUNTER,
    "Operator commands executed.",
    ("verb",),
)
QUEUED_RUNS = Metric(
    "queued_runs", MetricKind.GAUGE, "Agents waiting for one of the home's run slots."
)

_POOL = ("pool",)
GOVERNOR_CAP = Metric(
    "governor_cap", MetricKind.GAUGE, "Adaptive cap: agents that may run at once in a pool.", _POOL
)
GOVERNOR_BREAKER = Metric(
    "governor_breaker", MetricKind.GAUGE, "A pool's breaker: 0 closed, 1 half-open, 2 open.", _POOL
)
GOVERNOR_RATE_LIMIT_EVENTS = Metric(
    "governor_rate_limit_events",
    MetricKind.GAUGE,
    "Rate-limit refusals reported to an adaptive pool since its last reset.",
    _POOL,
)

GITHUB_BUDGET_LIMIT = Metric(
    "github_budget_limit",
    MetricKind.GAUGE,
    "Requests per hour that GitHub allows an account.",
    ("account",),
)
GITHUB_BUDGET_REMAINING = Metric(
    "github_budget_remaining",
    MetricKind.GAUGE,
    "Requests that an account has left until the limit resets.",
    ("account",),
)
GITHUB_POINTS = Metric(
    "github_points_last_minute",
    MetricKind.GAUGE,
    "Points of GitHub's secondary limit that an account spent in the last minute.",
    ("account",),
)
GITHUB_STRETCH = Metric(
    "github_poll_stretch",
    MetricKind.GAUGE,
    "Factor by which poll intervals are extended, for idle and for active repositories.",
    ("account", "repositories"),
)
GITHUB_REFUSALS = Metric(
    "github_refusals_total",
    MetricKind.COUNTER,
    "Requests refused for a rate limit (primary, secondary), by GitHub or before sending.",
    ("account", "limit", "by"),
)

_SURFACE = ("surface",)
FETCH_REQUESTS = Metric(
    "github_comment_fetch_requests_total",
    MetricKind.COUNTER,
    "Requests for pages of feeds.",
    _SURFACE,
)
FETCH_PAGES = Metric(
    "github_comment_fetch_pages_total",
    MetricKind.COUNTER,
    "Pages of feeds received with content.",
    _SURFACE,
)
FETCHED = Metric(
    "github_comment_fetched_total", MetricKind.COUNTER, "Items in received pages.", _SURFACE
)
FETCHED_NEW = Metric("github_comment_new_total", MetricKind.COUNTER, "New items.", _SURFACE)
FETCHED_REPLAY = Metric(
    "github_comment_replay_total", MetricKind.COUNTER, "Items that were known already.", _SURFACE
)
CURSOR_LAG = Metric(
    "github_comment_cursor_lag_seconds",
    MetricKind.GAUGE,
    "Age of a feed's cursor, by GitHub's clock.",
    _SURFACE,
)
FEEDBACK_INGESTED = Metric(
    "feedback_events_ingested_total",
    MetricKind.COUNTER,
    "New comments and reviews on followed pull requests.",
)
FEEDBACK_DEDUPED = Metric(
    "feedback_events_deduped_total",
    MetricKind.COUNTER,
    "Known comments and reviews on followed pull requests.",
)
SHADOW_DIFFERENCES = Metric(
    "github_shadow_differences_total",
    MetricKind.COUNTER,
    "Events that a full scan found and the feeds have missed.",
)
SLO_NEW = Metric(
    "slo_comments_new_per_poll_p95",
    MetricKind.GAUGE,
    "New comments per poll, 95th percentile of the last 200; 0 if there are none.",
    ("repo",),
)
SLO_FETCHED = Metric(
    "slo_comments_fetched_per_poll_p95",
    MetricKind.GAUGE,
    "Comments fetched per poll, 95th percentile of the last 200; 0 if there are none.",
    ("repo",),
)
SLO_LAG = Metric(
    "slo_comment_ingest_lag_seconds_p95",
    MetricKind.GAUGE,
    "Time from a comment's last change to the inbox, 95th percentile of the last 200 comments.",
    ("repo",),
)
NOTICES = Metric(
    "notices_total",
    MetricKind.COUNTER,
    "Notification attempts by result: sent, later, failed.",
    ("occasion", "result"),
)
SLO_LAG_TARGET = Metric(
    "slo_comment_ingest_lag_target_seconds",
    MetricKind.GAUGE,
    "Target of that lag: twice the poll interval plus 30 s.",
    ("repo",),
)

LIVE_CLIENTS = Metric(
    "live_clients", MetricKind.GAUGE, "Clients connected to live streams of the API."
)

API_CHANGES = Metric(
    "api_changes_total",
    MetricKind.COUNTER,
    "Requests to change something that were let in, by what let them in (token, session, open) and "
    "the answer's status.",
    ("auth", "status"),
)

METRICS = (
    LIVE_CLIENTS,
    API_CHANGES,
    LOG_LINES,
    LOG_LINES_LOST,
    STORE_TRANSACTIONS,
    STORE_WRITE_WAIT,
    ACTION_TOKENS,
    ACTION_TOKEN_UNOBSERVED_AGE,
    QUEUED_RUNS,
    GOVERNOR_CAP,
    GOVERNOR_BREAKER,
    GOVERNOR_RATE_LIMIT_EVENTS,
    OPERATOR_COMMANDS_SEEN,
    OPERATOR_COMMANDS_APPLIED,
    NOTICES,
    WEBHOOK_DELIVERIES,
    GITHUB_BUDGET_LIMIT,
    GITHUB_BUDGET_REMAINING,
    GITHUB_POINTS,
    GITHUB_STRETCH,
    GITHUB_REFUSALS,
    FETCH_REQUESTS,
    FETCH_PAGES,
    FETCHED,
    FETCHED_NEW,
    FETCHED_REPLAY,
    CURSOR_LAG,
    FEEDBACK_INGESTED,
    FEEDBACK_DEDUPED,
    SHADOW_DIFFERENCES,
    SLO_NEW,
    SLO_FETCHED,
    SLO_LAG,
    SLO_LAG_TARGET,
)
