"""Every key of the settings file with type, default, range and meaning; the secrets it names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from hostler.config.agent_kinds import AgentKindName


class Section(BaseModel):
    """A table of the settings file. Unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def key(default: Any, meaning: str, *, restart: bool = False, **limits: Any) -> Any:
    """Declare a key with its default. `restart`: changes take effect only after a restart."""
    return Field(default, description=meaning, json_schema_extra={"restart": restart}, **limits)


def required_key(meaning: str, **limits: Any) -> Any:
    """Declare a key without default. Its table can be added and removed without a restart."""
    return Field(description=meaning, json_schema_extra={"restart": False}, **limits)


def list_key(meaning: str, *, restart: bool = False) -> Any:
    """Declare a list that is empty by default."""
    extra: dict[str, Any] = {"restart": restart}
    return Field(default_factory=list, description=meaning, json_schema_extra=extra)


def needs_restart(field: FieldInfo) -> bool:
    """Return whether a change of this key takes effect only after a restart."""
    extra = field.json_schema_extra
    return bool(extra.get("restart")) if isinstance(extra, dict) else False


_ENV = r"^([A-Za-z_][A-Za-z0-9_]*)?$"
_LOGIN = r"^[A-Za-z0-9](-?[A-Za-z0-9]){0,38}(\[bot\])?$"
_REPO = r"^[A-Za-z0-9._-]{1,100}$"
_URL = r"^https?://[^\s/?#@]+[^\s?#@]*$"
_POSTGRES = r"^(postgresql://\S+)?$"
_LISTEN = r"^((\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5})?$"
_DATE = r"^\d{4}-\d{2}-\d{2}$"

EnvName = Annotated[str, StringConstraints(pattern=_ENV)]
Login = Annotated[str, StringConstraints(pattern=_LOGIN)]
RepoSlug = Annotated[str, StringConstraints(pattern=_REPO)]
HttpUrl = Annotated[str, StringConstraints(pattern=_URL)]
PostgresUrl = Annotated[str, StringConstraints(pattern=_POSTGRES)]
Listen = Annotated[str, StringConstraints(pattern=_LISTEN)]
Date = Annotated[str, StringConstraints(pattern=_DATE)]


def _reject_number(value: object) -> object:
    """Reject 0 and 1, which Python accepts as booleans."""
    if isinstance(value, int) and not isinstance(value, bool):
        expected = "true, false or 'shadow'"
        raise PydanticCustomError("literal_error", "not a switch", {"expected": expected})
    return value


Switch = Annotated[Literal[True, False, "shadow"], BeforeValidator(_reject_number)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=50)]

PATTERN_MEANINGS = {
    _ENV: "the name of an environment variable",
    _LOGIN: "a GitHub login",
    _REPO: "a GitHub repository name (letters, digits, '.', '_', '-')",
    _URL: "an http(s) address without query or user",
    _POSTGRES: "postgresql://user@host/name",
    _LISTEN: "host:port such as 127.0.0.1:8474",
    _DATE: "a date such as 2022-11-28",
}


DAY_SECONDS = 86_400
NotifyOccasion = Literal["blocked", "needs_input", "parked", "restart_failed"]


class Runtime(Section):
    """The service: polling, concurrency, storage and logs."""

    worker_count: int = key(
        4, "Maximum number of agents at once over all repositories.", ge=1, le=1024
    )
    poll_interval_seconds: int = key(30, "Seconds between polls.", ge=5, le=DAY_SECONDS)
    poll_cadence: Literal["repo", "turn"] = key(
        "repo", "`repo`: each repository once per interval; `turn`: one repository per interval."
    )
    restart_drain_timeout_seconds: int = key(
        900,
        "How long a restart waits for running agents before it is given up.",
        ge=1,
        le=DAY_SECONDS,
    )
    restart_command: list[str] = list_key("Command that updates Hostler on a restart.")
    restart_command_timeout_seconds: int = key(
        600, "Time limit of that command and of the rollback command.", ge=1, le=DAY_SECONDS
    )
    restart_rollback_command: list[str] = list_key(
        "Command that undoes an update which fails its check."
    )
    stop_grace_seconds: int = key(
        10, "Time between asking an agent to stop and killing it.", ge=0, le=3600
    )
    enable_incremental_comment_fetch: Switch = key(
        True, 'Fetch only what changed; `false`: read whole threads; `"shadow"`: do both, compare.'
    )
    feeds: Literal["repository", "threads"] = key(
        "repository", "Read one feed per repository, or one per watched thread."
    )
    comment_fetch_overlap_seconds: int = key(
        5, "How far each fetch reaches back before its cursor.", ge=0, le=3600
    )
    comment_fetch_late_visibility_seconds: int = key(
        300, "How late GitHub may show an earlier comment.", ge=0, le=DAY_SECONDS
    )
    comment_fetch_safe_backfill_seconds: int = key(
        DAY_SECONDS,
        "How far back to read again if a cursor is invalid.",
        ge=60,
        le=31 * DAY_SECONDS,
    )
    action_token_unobserved_seconds: int = key(
        120,
        "After this time, a comment by Hostler that no feed has shown is looked up.",
        restart=True,
        ge=1,
        le=DAY_SECONDS,
    )
    max_global_agents: int = key(
        8, "Cap of an agent pool without its own cap in `governor.json`.", ge=1, le=1024
    )
    machine_max_agents: int = key(
        0, "Maximum number of agents on this machine over all pools; 0: no limit.", ge=0, le=4096
    )
    memory_floor_mb: int = key(
        1024, "Start no agents while less memory than this is free; 0: off.", ge=0, le=1 << 24
    )
    disk_floor_mb: int = key(
        512,
        "Start no agents while a disk of the home has less free space than this, or than 5 % of "
        "its size, whichever is less; 0: off.",
        ge=0,
        le=1 << 30,
    )
    demand_ttl_seconds: int = key(
        600,
        "How long a project's demand for slots counts without being renewed.",
        ge=1,
        le=DAY_SECONDS,
    )
    rotation_window_seconds: int = key(
        60,
        "How often the remaining slot of an uneven fair share moves to the next project.",
        ge=1,
        le=DAY_SECONDS,
    )
    unattached_lease_ttl_seconds: int = key(
        300, "Lifetime of a lease whose holder cannot be verified.", ge=1, le=DAY_SECONDS
    )
    database_url: PostgresUrl = key(
        "",
        "PostgreSQL instead of the embedded database: `postgresql://user@host/name`, no password.",
        restart=True,
    )
    log_level: Literal["debug", "info", "warning", "error"] = key(
        "info", "Minimum level to log.", restart=True
    )
    log_retention_days: int = key(14, "Days of logs to keep.", restart=True, ge=1, le=3650)
    log_max_mb_per_day: int = key(
        256, "Maximum log size per day; 0: no limit.", restart=True, ge=0, le=1 << 20
    )
    log_max_mb: int = key(
        1024, "Maximum size of all logs; the oldest are deleted; 0: no limit.", restart=True, ge=0
    )
    otel: bool = key(False, "Send traces as configured by the `OTEL_*` variables.", restart=True)


class GitHub(Section):
    """Access to GitHub. Secrets are not written here: name a variable or a file."""

    api_url: HttpUrl = key("https://api.github.com", "Address of the REST API.", restart=True)
    web_url: HttpUrl = key(
        "https://github.com", "Address of git and of the web pages.", restart=True
    )
    auth: Literal["auto", "token", "gh", "app"] = key(
        "auto",
        "`auto`: the App if configured, else the token, else `gh auth token`.",
        restart=True,
    )
    token_env: EnvName = key("GITHUB_TOKEN", "Environment variable with the token.", restart=True)
    token_file: str = key("", "File with the token (readable only by you).", restart=True)
    app_id: int = key(0, "Number of the GitHub App; 0: none.", ge=0, restart=True)
    app_installation_id: int = key(
        0, "The App's installation; 0: looked up by repository.", ge=0, restart=True
    )
    app_private_key_file: str = key("", "File with the App's private key (PEM).", restart=True)
    webhook_secret_env: EnvName = key(
        "", "Environment variable with the webhook secret.", restart=True
    )
    webhook_secret_file: str = key("", "File with the webhook secret.", restart=True)
    webhook_listen: Listen = key(
        "", "Address to receive webhooks at, as `host:port`; empty: none.", restart=True
    )
    api_version: Date = key("2022-11-28", "API version sent with every request.", restart=True)
    request_timeout_seconds: int = key(30, "Time limit of one request.", ge=1, le=600, restart=True)
    budget_percent: int = key(
        80, "Percentage of GitHub's rate limits that Hostler may use.", ge=1, le=100, restart=True
    )
    idle_feed_every_polls: int = key(
        5, "Number of polls after which an idle repository reads its comment feeds.", ge=1, le=1000
    )
    seconds_between_writes: float = key(
        1.0, "Minimum time between two writes.", ge=1.0, le=60.0, restart=True
    )


class Labels(Section):
    """Labels that assign an issue to Hostler, or exclude it."""

    design: Label = key(
        "agent:design", "Write a design first; merging it starts the implementation."
    )
    bugfix: Label = key("agent:bugfix", "Fix a bug, with a test that reproduces it.")
    small_job: Label = key("agent:small-job", "Do a small change directly.")
    ignore: Label = key("agent:ignore", "Ignore the issue; overrides all other labels.")


class Repo(Section):
    """One watched repository: `[repo.<id>]` with any id."""

    owner: Login = required_key("Owner on GitHub.")
    name: RepoSlug = required_key("Name on GitHub.")
    base_branch: str = key("", "Branch to work from; empty: the repository's default branch.")
    labels: Labels = Field(
        default_factory=Labels, description="Labels of this repository, if not the defaults."
    )
    allowed_users: list[Login] = list_key(
        "Users whose issues and comments start work; all others are ignored."
    )
    operator_logins: list[Login] = list_key("Users who may give `/hostler` commands.")
    agent: str = key("", "Name of the agent, `[agent.<name>]`; empty: the only one.")
    required_tests: list[str] = list_key("Commands that must pass before a push.")
    setup_command: str = key("", "Command that prepares a fresh checkout.")
    coding_guidelines_path: str = key("", "File in the repository that agents must follow.")
    operations_issue_number: int = key(0, "Issue for operator commands; 0: none.", ge=0)
    max_concurrent_slots: int = key(
        3, "Maximum number of agents at once on this repository.", ge=1, le=1024
    )
    weight: int = key(1, "Weight of its fair share of slots.", ge=1, le=100)
    pr_actions_feedback_policy: Literal["never", "first_fail", "all_complete"] = key(
        "never", "When failing CI on Hostler's pull requests starts work."
    )
    receipt_comment: bool = key(False, "Comment the cost on each merged pull request.")
    paused: bool = key(False, "Keep watching, but start no work.")


class Agent(Section):
    """One coding agent: `[agent.<name>]`."""

    kind: AgentKindName = required_key("Kind of the agent.")
    command: list[str] = list_key(
        "Program and arguments; required for `command`, otherwise replaces the default program."
    )
    prompt: Literal["stdin", "file"] = key("stdin", "How a `command` agent receives its prompt.")
    script: str = key("", "Script of a `scripted` agent.")
    model: str = key("", "Model; empty: the program's default.")
    pool: str = key("", "Pool whose limits it shares: `provider` or `provider:account`.")
    extra_args: list[str] = list_key("Additional arguments.")
    permissions: Literal["all", "own"] = key(
        "all", "`all`: it acts without asking; `own`: as configured in the agent's own settings."
    )
    env: list[EnvName] = list_key("Environment variables to pass to the agent.")
    fallback: str = key("", "Agent for new tasks while this one's pool is parked.")
    wall_limit_minutes: int = key(0, "Time limit of a run; 0: as in `[tasks]`.", ge=0, le=10_080)
    own_home: bool = key(False, "Give each task its own HOME, and each run its own TMPDIR.")
    nice: int = key(0, "Niceness of its processes.", ge=0, le=19)
    memory_limit_mb: int = key(
        0, "Memory limit of each of its processes; 0: no limit.", ge=0, le=1 << 24
    )
    sandbox: Literal["none", "bubblewrap"] = key(
        "none", "Sandbox that confines it to its checkout."
    )


class Tasks(Section):
    """Limits of tasks: runs, retries, waiting and time."""

    max_concurrent_runs: int = key(0, "Agent runs at once in this home; 0 or less: no limit.")
    max_concurrent_root_tasks: int = key(0, "Root tasks at once; 0 or less: no limit.")
    max_restarts: int = key(100, "Attempts before a task fails.", ge=0, le=100_000)
    restart_delay_seconds: float = key(1.0, "Delay before the next attempt.", ge=0, le=3600)
    child_wait_timeout_seconds: int = key(
        300, "How long a finished task waits for its children.", ge=0, le=DAY_SECONDS
    )
    child_poll_interval_seconds: float = key(
        1.0, "How often it checks its children.", ge=0.1, le=60
    )
    dependency_poll_interval_seconds: float = key(
        2.0, "How often dependencies are checked without an event.", ge=0.1, le=3600
    )
    planner_grace_seconds: float = key(
        5.0, "How long a started task may have no run.", ge=0, le=3600
    )
    rate_limited_requeue_budget: int = key(
        5, "Number of times that rate limits may requeue a task.", ge=0, le=1000
    )
    exits_without_progress: int = key(
        3, "Exits without progress before the task asks a person.", ge=1, le=1000
    )
    pr_turns_without_person: int = key(
        10, "Turns on one pull request without user input.", ge=1, le=1000
    )
    repair_rounds: int = key(3, "Rounds to fix tests, conflicts or push races.", ge=0, le=100)
    waiting_joins_first_class_seconds: int = key(
        900, "Tasks waiting longer than this get the highest priority class.", ge=1, le=DAY_SECONDS
    )
    design_wall_limit_minutes: int = key(
        60, "Time limit of a run that writes a design.", ge=1, le=10_080
    )
    direct_wall_limit_minutes: int = key(
        90, "Time limit of a run that implements.", ge=1, le=10_080
    )
    feedback_wall_limit_minutes: int = key(
        30, "Time limit of a run that addresses feedback.", ge=1, le=10_080
    )
    silence_limit_minutes: int = key(
        15, "A run without output and running tool for this long is stalled.", ge=1, le=1440
    )
    ci_log_tail_lines: int = key(500, "Lines of a failed CI log that are given to the agent.", ge=1)
    bus_sync: bool = key(
        False, "Sync each message to disk, to survive power failures (slower).", restart=True
    )
    bus_lock_timeout_seconds: float = key(
        10.0, "Maximum wait for the bus's lock.", gt=0, le=600, restart=True
    )
    bus_max_retries: int = key(3, "Attempts to append a message.", ge=1, le=100, restart=True)
    bus_retry_backoff_seconds: float = key(
        0.1, "First delay between attempts; doubles.", ge=0, le=60, restart=True
    )
    bus_max_mb: int = key(8, "Size at which a bus starts a new file.", ge=1, le=1024, restart=True)


class Budget(Section):
    """Cost limits. At a limit, new work waits for a person; running agents are not stopped."""

    per_task_usd: float = key(20.0, "Limit per task; 0: none.", ge=0)
    per_repo_daily_usd: float = key(0.0, "Limit per repository and day; 0: none.", ge=0)
    per_day_usd: float = key(0.0, "Limit per day; 0: none.", ge=0)
    warn_at_percent: int = key(80, "Percentage of a limit at which to warn.", ge=1, le=100)


class Web(Section):
    """The dashboard and the API, by default only on this machine."""

    enabled: bool = key(False, "Always serve them with the service, as with `--web`.", restart=True)
    host: str = key("127.0.0.1", "Address to listen on.", restart=True)
    port: int = key(8473, "Port to listen on.", restart=True, ge=0, le=65_535)
    allow_remote: bool = key(
        False, "Required to listen on other addresses than loopback.", restart=True
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="Host names under which other machines reach it; not needed for addresses.",
        json_schema_extra={"restart": True},
    )
    token_env: EnvName = key("", "Environment variable with the access token.", restart=True)
    token_file: str = key(
        "", "File with the access token; empty: created in the home.", restart=True
    )


class Notify(Section):
    """Where to send a notification when a task needs a person."""

    url_env: EnvName = key("", "Environment variable with the address.", restart=True)
    url_file: str = key("", "File with the address (which is a secret).", restart=True)
    shape: Literal["generic", "slack", "ntfy"] = key(
        "generic", "Format of the message.", restart=True
    )
    secret_env: EnvName = key("", "Environment variable with the signing key.", restart=True)
    secret_file: str = key("", "File with the signing key.", restart=True)
    events: list[NotifyOccasion] = Field(
        default_factory=lambda: list(get_args(NotifyOccasion)),
        description="Occasions for a notification.",
        json_schema_extra={"restart": True},
    )


class Settings(Section):
    """The whole settings file."""

    github: GitHub = Field(default_factory=GitHub)
    runtime: Runtime = Field(default_factory=Runtime)
    tasks: Tasks = Field(default_factory=Tasks)
    budget: Budget = Field(default_factory=Budget)
    web: Web = Field(default_factory=Web)
    notify: Notify = Field(default_factory=Notify)
    repo: dict[str, Repo] = Field(default_factory=dict)
    agent: dict[str, Agent] = Field(default_factory=dict)


# Plain tables; `repo` and `agent` contain one table per name.
PLAIN_TABLES: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}


# Variables with such names contain secrets. Redacting short values would hide ordinary words.
_SECRET_NAME = re.compile(r"(API_?KEY|AUTH_TOKEN|OAUTH_TOKEN|ACCESS_TOKEN|SECRET|PASSWORD)$")
MIN_SECRET_LENGTH = 8


def read_named_secrets(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values to redact: of `…_env` keys, and of variables with names of secrets.

    These include the providers' keys, which an agent may print.
    """
    configured = {*_values_of_keys(settings, "_env"), "PGPASSWORD"}
    by_name = {name for name in environment if _SECRET_NAME.search(name.upper())}
    for name in sorted(configured | by_name):
        value = environment.get(name, "")
        if len(value) >= (1 if name in configured else MIN_SECRET_LENGTH):
            yield value


def list_secret_files(settings: Settings) -> tuple[Path, ...]:
    """Return the files of all `…_file` keys, which contain secrets."""
    names = sorted({name for name in _values_of_keys(settings, "_file") if name})
    return tuple(Path(os.path.expanduser(name)).absolute() for name in names)  # noqa: PTH111


def _values_of_keys(settings: Settings, ending: str) -> Iterator[str]:
    for section in (settings.github, settings.web, settings.notify):
        for key in type(section).model_fields:
            if key.endswith(ending):
                yield getattr(section, key)
