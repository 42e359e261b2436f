"""Every log event and metric, declared once. docs/reference/events-and-metrics.md lists them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LogLevel(StrEnum):
    """How much an event matters."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Levels in order, as a number."""
        return list(LogLevel).index(self)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Something that is logged: its name, how much it matters, and what it means."""

    name: str
    level: LogLevel
    meaning: str
    fields: tuple[str, ...] = ()


class MetricKind(StrEnum):
    """The kinds of Prometheus metrics we use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """Something that is counted or measured."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()


COMMAND_FAILED = LogEvent(
    "command_failed", LogLevel.ERROR, "A command ended with an error.", ("command", "error")
)
FOREIGN_LOG = LogEvent(
    "foreign_log", LogLevel.INFO, "A library we use logged something.", ("logger", "message")
)
LOG_LINES_DROPPED = LogEvent(
    "log_lines_dropped",
    LogLevel.WARNING,
    "Lines could not be written earlier.",
    ("count", "reason"),
)
STORE_UPGRADED = LogEvent(
    "store_upgraded",
    LogLevel.INFO,
    "The database was brought to this program's layout.",
    ("from_revision", "to_revision", "backup"),
)
STORE_BACKED_UP = LogEvent(
    "store_backed_up", LogLevel.INFO, "The database was copied.", ("backup",)
)
STORE_RESTORED = LogEvent(
    "store_restored", LogLevel.WARNING, "The database was replaced by a backup.", ("backup", "kept")
)

OPERATOR_COMMAND_SEEN = LogEvent(
    "operator_command_seen",
    LogLevel.INFO,
    "An operator gave a command.",
    ("repo", "number", "actor", "verb", "key"),
)
OPERATOR_COMMAND_APPLIED = LogEvent(
    "operator_command_applied",
    LogLevel.INFO,
    "A command was carried out; a restart was asked for.",
    ("repo", "number", "actor", "verb", "key"),
)
OPERATOR_COMMAND_FAILED = LogEvent(
    "operator_command_failed",
    LogLevel.WARNING,
    "A command could not be carried out.",
    ("repo", "number", "actor", "verb", "key", "why"),
)
OPERATOR_COMMAND_REFUSED = LogEvent(
    "operator_command_refused",
    LogLevel.INFO,
    "A command was not understood, or not from an operator.",
    ("repo", "number", "actor", "key"),
)

BUDGET_LOW = LogEvent(
    "budget_low",
    LogLevel.WARNING,
    "A budget runs low, or is used up.",
    ("task", "setting", "used_usd", "limit_usd"),
)

NOTICE_SENT = LogEvent("notice_sent", LogLevel.INFO, "Somebody was called.", ("occasion", "key"))
NOTICE_FAILED = LogEvent(
    "notice_failed", LogLevel.WARNING, "A call was given up.", ("occasion", "key", "why")
)

SERVICE_STARTED = LogEvent(
    "service_started", LogLevel.INFO, "A service works on a home.", ("home", "repos", "workers")
)
SERVICE_LEFT = LogEvent(
    "service_left", LogLevel.INFO, "A service has left; so many agents go on.", ("agents",)
)
SERVICE_REPO_POLLED = LogEvent(
    "service_repo_polled",
    LogLevel.INFO,
    "A repository was looked at: events, tasks changed, requests, tasks by state.",
    ("repo", "new", "changed", "requests", "queued", "running", "waiting"),
)
SERVICE_GLOBAL_CAPACITY = LogEvent(
    "service_global_capacity",
    LogLevel.INFO,
    "How many workers are busy, of how many.",
    ("in_flight", "capacity"),
)
_DRAIN_FIELDS = ("pending", "seconds")
SERVICE_RESTART_DRAIN_STARTED = LogEvent(
    "service_restart_drain_started",
    LogLevel.INFO,
    "A restart was asked for: nothing begins in any repository.",
    _DRAIN_FIELDS,
)
SERVICE_RESTART_DRAIN_PROGRESS = LogEvent(
    "service_restart_drain_progress",
    LogLevel.INFO,
    "Another number of futures is pending over all repositories.",
    _DRAIN_FIELDS,
)
SERVICE_RESTART_DRAIN_COMPLETED = LogEvent(
    "service_restart_drain_completed",
    LogLevel.INFO,
    "No future is pending: the restart begins.",
    _DRAIN_FIELDS,
)
SERVICE_RESTART_DRAIN_TIMEOUT = LogEvent(
    "service_restart_drain_timeout",
    LogLevel.WARNING,
    "Work went on for too long: there is no restart, and work begins again.",
    _DRAIN_FIELDS,
)
SERVICE_RESTARTED = LogEvent(
    "service_restarted",
    LogLevel.INFO,
    "The service is back after a restart.",
    ("version", "requested_by"),
)
SERVICE_RESTART_FAILED = LogEvent(
    "service_restart_failed",
    LogLevel.ERROR,
    "An update or its check failed; what the service is now is said.",
    ("why",),
)
SERVICE_UPDATE = LogEvent(
    "service_update",
    LogLevel.INFO,
    "A command of an update has ended; the end of what it printed.",
    ("step", "exit_code", "output"),
)
SERVICE_SETTINGS_CHANGED = LogEvent(
    "service_settings_changed",
    LogLevel.INFO,
    "Other settings are in force; some wait for a restart.",
    ("taken", "waiting"),
)
SERVICE_SETTINGS_REFUSED = LogEvent(
    "service_settings_refused",
    LogLevel.WARNING,
    "The settings file has mistakes: those in force stay.",
    ("why",),
)
SERVICE_TROUBLED = LogEvent(
    "service_troubled",
    LogLevel.WARNING,
    "The service could not do something; it is tried again.",
    ("why",),
)
SERVICE_DEFECT = LogEvent(
    "service_defect", LogLevel.ERROR, "Something broke that should not.", ("error", "traceback")
)
REPO_POLL_FAILED = LogEvent(
    "repo_poll_failed",
    LogLevel.WARNING,
    "A repository could not be looked at; it is tried again, later each time.",
    ("repo", "why", "failures"),
)
REPO_POLL_HELD = LogEvent(
    "repo_poll_held",
    LogLevel.WARNING,
    "A repository is looked at later, as our own GitHub budget is spent.",
    ("repo", "why"),
)
DISK_LOW = LogEvent(
    "disk_low",
    LogLevel.WARNING,
    "A disk has too little room: nothing new starts.",
    ("why",),
)
DISK_FREE = LogEvent("disk_free", LogLevel.INFO, "The disk has room again: work begins as before.")
TASK_ADMITTED = LogEvent(
    "task_admitted",
    LogLevel.INFO,
    "A task got its place.",
    ("task", "run", "kind", "agent", "attempt"),
)
RUN_ADOPTED = LogEvent(
    "run_adopted",
    LogLevel.INFO,
    "A run of an earlier service goes on here.",
    ("task", "run", "state", "action"),
)
RUN_STOP_ASKED = LogEvent(
    "run_stop_asked", LogLevel.INFO, "An agent is asked to stop.", ("run", "task", "why")
)
WORK_ENDED = LogEvent("work_ended", LogLevel.INFO, "A worker is through.", ("name", "project"))
WORK_TROUBLED = LogEvent(
    "work_troubled",
    LogLevel.WARNING,
    "A worker could not go on; it is tried again.",
    ("name", "project", "why", "tries"),
)
CHECKOUT_CLEANED = LogEvent(
    "checkout_cleaned", LogLevel.INFO, "The checkout of a finished task was removed.", ("task",)
)
CHECKOUT_KEPT = LogEvent(
    "checkout_kept", LogLevel.WARNING, "A checkout stays: work would be lost.", ("task", "why")
)
PROMPT_REFUSED = LogEvent(
    "prompt_refused",
    LogLevel.WARNING,
    "A repository's own prompt cannot be used; ours is.",
    ("repo", "why"),
)
TOKEN_RECONCILE_TIMEOUT = LogEvent(
    "token_reconcile_timeout",
    LogLevel.WARNING,
    "GitHub took a write of ours, and it cannot be found there.",
    ("repo", "token", "number", "looks"),
)
PROJECT_TOO_WIDE = LogEvent(
    "project_too_wide",
    LogLevel.WARNING,
    "A project's width exceeds its fair share of a pool: the rest is only what others leave.",
    ("pool", "project", "why"),
)
GOVERNOR_CAP_CHANGED = LogEvent(
    "governor_cap_changed",
    LogLevel.INFO,
    "What was learned of a pool changed how many agents it takes.",
    ("pool", "before", "cap", "rate_limit_events"),
)
GOVERNOR_BREAKER_CHANGED = LogEvent(
    "governor_breaker_changed",
    LogLevel.WARNING,
    "A pool's breaker is open, half-open or closed.",
    ("pool", "state"),
)
GOVERNOR_DAMAGED = LogEvent(
    "governor_damaged",
    LogLevel.WARNING,
    "What was learned of a pool cannot be read: the most careful is taken for it.",
    ("pool",),
)
TASK_FOUND_LOST = LogEvent(
    "task_found_lost",
    LogLevel.WARNING,
    "A task was said to run, and nobody worked on it: it is seen to again.",
    ("task", "project"),
)
GC_SWEPT = LogEvent(
    "gc_swept", LogLevel.INFO, "Old things were removed.", ("kind", "count", "bytes")
)
INCREMENTAL_SCAN_STARTED = LogEvent(
    "incremental_scan_started", LogLevel.DEBUG, "A repository is asked what changed.", ("repo",)
)
INCREMENTAL_SCAN_COMPLETED = LogEvent(
    "incremental_scan_completed",
    LogLevel.DEBUG,
    "What changed in a repository is stored.",
    ("repo", "new", "replayed", "requests"),
)
INCREMENTAL_SCAN_BACKFILL = LogEvent(
    "incremental_scan_backfill",
    LogLevel.INFO,
    "A list is read from farther back: for the first time, anew, or after a pause.",
    ("repo", "surface", "number", "since"),
)
CURSOR_INVALID = LogEvent(
    "cursor_invalid",
    LogLevel.WARNING,
    "A cursor cannot be believed and is set back.",
    ("repo", "surface", "number", "found"),
)
TOKEN_OBSERVED = LogEvent(
    "token_observed", LogLevel.INFO, "A write of ours was seen on GitHub.", ("repo", "token")
)
SHADOW_DIFFERENCE = LogEvent(
    "shadow_difference",
    LogLevel.ERROR,
    "A full scan shows something that the feeds have not found.",
    ("repo", "key", "number"),
)

WEB_LISTENING = LogEvent(
    "web_listening", LogLevel.INFO, "The API listens; wide: to other machines too.", ("url", "wide")
)
WEB_FAILED = LogEvent(
    "web_failed", LogLevel.ERROR, "A request to the API met a defect.", ("method", "path")
)
LIVE_CLIENT_DROPPED = LogEvent(
    "live_client_dropped", LogLevel.INFO, "A live client did not read, and was cut off.", ("path",)
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

LOG_LINES = Metric("log_lines_total", MetricKind.COUNTER, "Lines logged.", ("level",))
LOG_LINES_LOST = Metric(
    "log_lines_dropped_total", MetricKind.COUNTER, "Lines that could not be written."
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
    "Steps of outgoing writes: planned, posted, observed, failed.",
    ("status", "source"),
)
ACTION_TOKEN_UNOBSERVED_AGE = Metric(
    "action_token_unobserved_age_seconds",
    MetricKind.GAUGE,
    "Age of the oldest write that GitHub took and no feed has shown.",
)
WEBHOOK_DELIVERIES = Metric(
    "webhook_deliveries_total",
    MetricKind.COUNTER,
    "Webhooks by what was answered: 202 taken, 403 forged, 409 seen before, 413 too large.",
    ("answer",),
)
OPERATOR_COMMANDS_SEEN = Metric(
    "operator_commands_seen_total",
    MetricKind.COUNTER,
    "Operator commands that were noticed, of whomever.",
    ("verb",),
)
OPERATOR_COMMANDS_APPLIED = Metric(
    "operator_commands_applied_total",
    MetricKind.COUNTER,
    "Operator commands that were carried out.",
    ("verb",),
)
QUEUED_RUNS = Metric(
    "queued_runs", MetricKind.GAUGE, "Agents that wait for one of the home's run slots."
)

_POOL = ("pool",)
GOVERNOR_CAP = Metric(
    "governor_cap", MetricKind.GAUGE, "Agents that an adaptive pool takes at once.", _POOL
)
GOVERNOR_BREAKER = Metric(
    "governor_breaker", MetricKind.GAUGE, "A pool's breaker: 0 closed, 1 half-open, 2 open.", _POOL
)
GOVERNOR_RATE_LIMIT_EVENTS = Metric(
    "governor_rate_limit_events",
    MetricKind.GAUGE,
    "Refusals of which an adaptive pool has heard, since it was last reset.",
    _POOL,
)

GITHUB_BUDGET_LIMIT = Metric(
    "github_budget_limit",
    MetricKind.GAUGE,
    "Requests that GitHub allows an account in an hour.",
    ("account",),
)
GITHUB_BUDGET_REMAINING = Metric(
    "github_budget_remaining",
    MetricKind.GAUGE,
    "Requests that an account has left until the reset.",
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
    "By how much pauses between polls grow, of repositories that are idle or active.",
    ("account", "repositories"),
)
GITHUB_REFUSALS = Metric(
    "github_refusals_total",
    MetricKind.COUNTER,
    "Requests refused for a limit (primary, secondary), by GitHub or by us before they left.",
    ("account", "limit", "by"),
)

_SURFACE = ("surface",)
FETCH_REQUESTS = Metric(
    "github_comment_fetch_requests_total",
    MetricKind.COUNTER,
    "Pages of feeds that were asked for.",
    _SURFACE,
)
FETCH_PAGES = Metric(
    "github_comment_fetch_pages_total",
    MetricKind.COUNTER,
    "Pages of feeds that came with content.",
    _SURFACE,
)
FETCHED = Metric(
    "github_comment_fetched_total", MetricKind.COUNTER, "Items in those pages.", _SURFACE
)
FETCHED_NEW = Metric(
    "github_comment_new_total", MetricKind.COUNTER, "Items that were new.", _SURFACE
)
FETCHED_REPLAY = Metric(
    "github_comment_replay_total", MetricKind.COUNTER, "Items that were seen before.", _SURFACE
)
CURSOR_LAG = Metric(
    "github_comment_cursor_lag_seconds",
    MetricKind.GAUGE,
    "Age of a feed's watermark, by GitHub's time.",
    _SURFACE,
)
FEEDBACK_INGESTED = Metric(
    "feedback_events_ingested_total",
    MetricKind.COUNTER,
    "Comments and reviews of followed pull requests that were new.",
)
FEEDBACK_DEDUPED = Metric(
    "feedback_events_deduped_total",
    MetricKind.COUNTER,
    "Comments and reviews of followed pull requests that were seen before.",
)
SHADOW_DIFFERENCES = Metric(
    "github_shadow_differences_total",
    MetricKind.COUNTER,
    "Events that a full scan shows and the feeds have not found.",
)
SLO_NEW = Metric(
    "slo_comments_new_per_poll_p95",
    MetricKind.GAUGE,
    "New comments in a poll, 95th percentile of the last 200; 0 while people are quiet.",
    ("repo",),
)
SLO_FETCHED = Metric(
    "slo_comments_fetched_per_poll_p95",
    MetricKind.GAUGE,
    "Comments fetched in a poll, 95th percentile of the last 200; 0 while people are quiet.",
    ("repo",),
)
SLO_LAG = Metric(
    "slo_comment_ingest_lag_seconds_p95",
    MetricKind.GAUGE,
    "From a comment's last change to our inbox, 95th percentile of the last 200 comments.",
    ("repo",),
)
NOTICES = Metric(
    "notices_total",
    MetricKind.COUNTER,
    "Calls for people, by what became of each attempt: sent, later, failed.",
    ("occasion", "result"),
)
SLO_LAG_TARGET = Metric(
    "slo_comment_ingest_lag_target_seconds",
    MetricKind.GAUGE,
    "What that lag may be: twice the poll interval and 30 s.",
    ("repo",),
)

LIVE_CLIENTS = Metric(
    "live_clients", MetricKind.GAUGE, "Clients that follow live streams of the API."
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
