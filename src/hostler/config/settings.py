"""Every key of the settings file: type, default, range, meaning; and the secrets that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A table of the settings file. Unknown keys and wrong types are mistakes, never guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def key(default: Any, meaning: str, *, restart: bool = False, **limits: Any) -> Any:
    """A key with its default. `restart`: a change takes effect only after a restart."""
    return Field(default, description=meaning, json_schema_extra={"restart": restart}, **limits)


def required_key(meaning: str, **limits: Any) -> Any:
    """A key that has no default. Its table comes and goes without a restart."""
    return Field(description=meaning, json_schema_extra={"restart": False}, **limits)


def list_key(meaning: str, *, restart: bool = False) -> Any:
    """A list that is empty by default."""
    extra: dict[str, Any] = {"restart": restart}
    return Field(default_factory=list, description=meaning, json_schema_extra=extra)


def needs_restart(field: FieldInfo) -> bool:
    """Whether a running service takes up a change of this key only after a restart."""
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
    """Python takes 1 for True; a settings file does not."""
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
    """The service: how it polls, how much runs at once, where it keeps things."""

    worker_count: int = key(
        4, "Agents that may work at once, over all repositories.", ge=1, le=1024
    )
    poll_interval_seconds: int = key(30, "Pause between polls.", ge=5, le=DAY_SECONDS)
    poll_cadence: Literal["repo", "turn"] = key(
        "repo", "`repo`: each repository once per interval; `turn`: one repository per interval."
    )
    restart_drain_timeout_seconds: int = key(
        900, "How long a restart waits for running work before it gives up.", ge=1, le=DAY_SECONDS
    )
    restart_command: list[str] = list_key("Program and arguments that update Hostler on a restart.")
    restart_command_timeout_seconds: int = key(
        600, "How long that command, and the one that undoes it, may take.", ge=1, le=DAY_SECONDS
    )
    restart_rollback_command: list[str] = list_key(
        "Program and arguments that undo an update which does not pass its own check."
    )
    stop_grace_seconds: int = key(
        10, "Time an agent gets between the request to stop and the kill.", ge=0, le=3600
    )
    enable_incremental_comment_fetch: Switch = key(
        True, 'Fetch only what changed; `false`: read whole threads; `"shadow"`: do both, compare.'
    )
    feeds: Literal["repository", "threads"] = key(
        "repository", "Read one feed per repository, or one per watched thread."
    )
    comment_fetch_overlap_seconds: int = key(
        5, "How far each fetch reaches back behind its cursor.", ge=0, le=3600
    )
    comment_fetch_late_visibility_seconds: int = key(
        300, "How late GitHub may show a comment that was written earlier.", ge=0, le=DAY_SECONDS
    )
    comment_fetch_safe_backfill_seconds: int = key(
        DAY_SECONDS,
        "How far back to read again when a cursor turns out invalid.",
        ge=60,
        le=31 * DAY_SECONDS,
    )
    action_token_unobserved_seconds: int = key(
        120,
        "When a comment we wrote is looked for, if no feed has shown it.",
        restart=True,
        ge=1,
        le=DAY_SECONDS,
    )
    max_global_agents: int = key(
        8, "Cap of an agent pool that `governor.json` does not name.", ge=1, le=1024
    )
    machine_max_agents: int = key(
        0, "Agents on this machine over all pools; 0: no ceiling.", ge=0, le=4096
    )
    memory_floor_mb: int = key(
        1024, "No agent starts while less memory than this is free; 0: off.", ge=0, le=1 << 24
    )
    disk_floor_mb: int = key(
        512,
        "Nothing starts while a disk of the home has less room than this, or than 5 % of itself, "
        "whichever is less; 0: off.",
        ge=0,
        le=1 << 30,
    )
    demand_ttl_seconds: int = key(
        600,
        "How long a project's wish for slots counts without being renewed.",
        ge=1,
        le=DAY_SECONDS,
    )
    rotation_window_seconds: int = key(
        60,
        "How often the odd slot of a fair share moves to the next project.",
        ge=1,
        le=DAY_SECONDS,
    )
    unattached_lease_ttl_seconds: int = key(
        300, "Life of a lease whose holder cannot be verified.", ge=1, le=DAY_SECONDS
    )
    database_url: PostgresUrl = key(
        "",
        "PostgreSQL instead of the embedded database: `postgresql://user@host/name`, no password.",
        restart=True,
    )
    log_level: Literal["debug", "info", "warning", "error"] = key(
        "info", "Least level to log.", restart=True
    )
    log_retention_days: int = key(14, "Days of logs to keep.", restart=True, ge=1, le=3650)
    log_max_mb_per_day: int = key(
        256, "Largest log of one day; 0: no cap.", restart=True, ge=0, le=1 << 20
    )
    log_max_mb: int = key(
        1024, "Largest size of all logs; the oldest go; 0: no cap.", restart=True, ge=0
    )
    otel: bool = key(False, "Send traces as the `OTEL_*` variables say.", restart=True)


class GitHub(Section):
    """How GitHub is reached. Secrets are named here (a variable, a file), never written."""

    api_url: HttpUrl = key("https://api.github.com", "Address of the REST API.", restart=True)
    web_url: HttpUrl = key("https://github.com", "Address of git and of the pages.", restart=True)
    auth: Literal["auto", "token", "gh", "app"] = key(
        "auto",
        "`auto`: the App if set, else the token, else what `gh auth token` says.",
        restart=True,
    )
    token_env: EnvName = key(
        "GITHUB_TOKEN", "Environment variable that holds the token.", restart=True
    )
    token_file: str = key("", "File that holds the token (readable by you alone).", restart=True)
    app_id: int = key(0, "Number of the GitHub App; 0: none.", ge=0, restart=True)
    app_installation_id: int = key(
        0, "The App's installation; 0: found by repository.", ge=0, restart=True
    )
    app_private_key_file: str = key("", "File with the App's private key (PEM).", restart=True)
    webhook_secret_env: EnvName = key(
        "", "Environment variable with the webhook secret.", restart=True
    )
    webhook_secret_file: str = key("", "File with the webhook secret.", restart=True)
    webhook_listen: Listen = key(
        "", "Where webhooks are taken, as `host:port`; empty: nowhere.", restart=True
    )
    api_version: Date = key("2022-11-28", "API version sent with every request.", restart=True)
    request_timeout_seconds: int = key(
        30, "Longest wait for one answer.", ge=1, le=600, restart=True
    )
    budget_percent: int = key(
        80, "Share of GitHub's limits that may be used.", ge=1, le=100, restart=True
    )
    idle_feed_every_polls: int = key(
        5, "A quiet repository reads its comment feeds every so many polls.", ge=1, le=1000
    )
    seconds_between_writes: float = key(
        1.0, "Least pause between two writes.", ge=1.0, le=60.0, restart=True
    )


class Labels(Section):
    """Labels that hand an issue to Hostler, or keep it away."""

    design: Label = key("agent:design", "Write a design first; its merge starts the work.")
    bugfix: Label = key("agent:bugfix", "Fix a bug, with a test that fails before.")
    small_job: Label = key("agent:small-job", "Do a small job directly.")
    ignore: Label = key("agent:ignore", "Hands off; wins over all others.")


class Repo(Section):
    """One watched repository: `[repo.<id>]`, where the id is yours to choose."""

    owner: Login = required_key("Owner on GitHub.")
    name: RepoSlug = required_key("Name on GitHub.")
    base_branch: str = key("", "Branch to work from; empty: the repository's default branch.")
    labels: Labels = Field(
        default_factory=Labels, description="The labels this repository uses, if not the usual."
    )
    allowed_users: list[Login] = list_key("Whose issues and comments cause work. Nobody else's do.")
    operator_logins: list[Login] = list_key("Who may give `/hostler` commands.")
    agent: str = key("", "Which `[agent.<name>]` works here; empty: the only one.")
    required_tests: list[str] = list_key("Commands that must pass before a push.")
    setup_command: str = key("", "Command that prepares a fresh checkout.")
    coding_guidelines_path: str = key("", "File in the repository that agents must follow.")
    operations_issue_number: int = key(0, "Issue that takes operator commands; 0: none.", ge=0)
    max_concurrent_slots: int = key(3, "Agents at once on this repository.", ge=1, le=1024)
    weight: int = key(1, "Its share where repositories compete.", ge=1, le=100)
    pr_actions_feedback_policy: Literal["never", "first_fail", "all_complete"] = key(
        "never", "When failing CI of our pull requests becomes work."
    )
    receipt_comment: bool = key(False, "End each pull request with what it cost.")
    paused: bool = key(False, "Watch, but start nothing.")


class Agent(Section):
    """One kind of worker: `[agent.<name>]`."""

    kind: Literal["claude", "codex", "gemini", "opencode", "command", "scripted"] = required_key(
        "Which program this is."
    )
    command: list[str] = list_key(
        "Program and arguments; for `command`, needed; else replaces the name."
    )
    prompt: Literal["stdin", "file"] = key("stdin", "How a `command` gets its prompt.")
    script: str = key("", "File that a `scripted` agent plays.")
    model: str = key("", "Model to ask for; empty: the program's own default.")
    pool: str = key("", "Whose limits it shares: `provider` or `provider:account`.")
    extra_args: list[str] = list_key("Further arguments, as they are.")
    permissions: Literal["all", "own"] = key(
        "all", "`all`: it asks nobody before it acts; `own`: as its own settings say."
    )
    env: list[EnvName] = list_key("Variables of ours that the agent may see.")
    fallback: str = key("", "Agent for new tasks while this one's pool is closed.")
    wall_limit_minutes: int = key(0, "Longest run; 0: as `[tasks]` says.", ge=0, le=10_080)
    own_home: bool = key(False, "Give every task a HOME, and every run a TMPDIR, of its own.")
    nice: int = key(0, "Niceness of its processes.", ge=0, le=19)
    memory_limit_mb: int = key(
        0, "Memory that each of its processes may use; 0: no limit.", ge=0, le=1 << 24
    )
    sandbox: Literal["none", "bubblewrap"] = key("none", "What keeps it inside its checkout.")


class Tasks(Section):
    """How tasks run, restart, wait for one another and give up."""

    max_concurrent_runs: int = key(0, "Agent runs at once in this home; 0 or less: no limit.")
    max_concurrent_root_tasks: int = key(0, "Root tasks at once; 0 or less: no limit.")
    max_restarts: int = key(100, "Attempts before a task has failed.", ge=0, le=100_000)
    restart_delay_seconds: float = key(1.0, "Pause before the next attempt.", ge=0, le=3600)
    child_wait_timeout_seconds: int = key(
        300, "How long a finished task waits for its children.", ge=0, le=DAY_SECONDS
    )
    child_poll_interval_seconds: float = key(1.0, "How often it looks at them.", ge=0.1, le=60)
    dependency_poll_interval_seconds: float = key(
        2.0, "How often dependencies are looked at if no event comes.", ge=0.1, le=3600
    )
    planner_grace_seconds: float = key(
        5.0, "How long a started task may have no run to show.", ge=0, le=3600
    )
    rate_limited_requeue_budget: int = key(
        5, "Times a task may be sent back by rate limits.", ge=0, le=1000
    )
    exits_without_progress: int = key(
        3, "Exits without progress before a person is asked.", ge=1, le=1000
    )
    pr_turns_without_person: int = key(
        10, "Turns on one pull request without a person's word.", ge=1, le=1000
    )
    repair_rounds: int = key(3, "Rounds to mend tests, conflicts or push races.", ge=0, le=100)
    waiting_joins_first_class_seconds: int = key(
        900, "After this wait a task goes before newer classes.", ge=1, le=DAY_SECONDS
    )
    design_wall_limit_minutes: int = key(60, "Longest run that writes a design.", ge=1, le=10_080)
    direct_wall_limit_minutes: int = key(90, "Longest run that does the work.", ge=1, le=10_080)
    feedback_wall_limit_minutes: int = key(30, "Longest run on feedback.", ge=1, le=10_080)
    silence_limit_minutes: int = key(
        15, "Silence, with no tool running, after which a run is stalled.", ge=1, le=1440
    )
    ci_log_tail_lines: int = key(500, "Lines of a failed CI log that an agent sees.", ge=1)
    bus_sync: bool = key(False, "Messages survive a power cut too (slower).", restart=True)
    bus_lock_timeout_seconds: float = key(
        10.0, "Longest wait for the bus's lock.", gt=0, le=600, restart=True
    )
    bus_max_retries: int = key(3, "Attempts to append a message.", ge=1, le=100, restart=True)
    bus_retry_backoff_seconds: float = key(
        0.1, "First pause between them; doubles.", ge=0, le=60, restart=True
    )
    bus_max_mb: int = key(
        8, "Size at which a bus goes on in a new file.", ge=1, le=1024, restart=True
    )


class Budget(Section):
    """Money. Reaching a limit stops new work and asks; it never kills a running agent."""

    per_task_usd: float = key(20.0, "One task; 0: no limit.", ge=0)
    per_repo_daily_usd: float = key(0.0, "One repository in a day; 0: no limit.", ge=0)
    per_day_usd: float = key(0.0, "Everything in a day; 0: no limit.", ge=0)
    warn_at_percent: int = key(80, "When to warn before a limit.", ge=1, le=100)


class Web(Section):
    """The dashboard and the API, on this machine only unless you say otherwise."""

    enabled: bool = key(
        False, "Serve them whenever the service runs, as `hostler service --web`.", restart=True
    )
    host: str = key("127.0.0.1", "Address to listen on.", restart=True)
    port: int = key(8473, "Port to listen on.", restart=True, ge=0, le=65_535)
    allow_remote: bool = key(False, "Needed for any address but loopback.", restart=True)
    hosts: list[str] = Field(
        default_factory=list,
        description="Names by which others reach it, with `allow_remote`; addresses need none.",
        json_schema_extra={"restart": True},
    )
    token_env: EnvName = key("", "Environment variable with the access token.", restart=True)
    token_file: str = key("", "File with the access token; empty: made in the home.", restart=True)


class Notify(Section):
    """Where to call when a person is needed."""

    url_env: EnvName = key("", "Environment variable with the address to post to.", restart=True)
    url_file: str = key("", "File with that address (it is a secret).", restart=True)
    shape: Literal["generic", "slack", "ntfy"] = key(
        "generic", "Form of the message.", restart=True
    )
    secret_env: EnvName = key(
        "", "Environment variable with the key that signs messages.", restart=True
    )
    secret_file: str = key("", "File with that key.", restart=True)
    events: list[NotifyOccasion] = Field(
        default_factory=lambda: list(get_args(NotifyOccasion)),
        description="What to call for.",
        json_schema_extra={"restart": True},
    )


class Settings(Section):
    """The whole file."""

    github: GitHub = Field(default_factory=GitHub)
    runtime: Runtime = Field(default_factory=Runtime)
    tasks: Tasks = Field(default_factory=Tasks)
    budget: Budget = Field(default_factory=Budget)
    web: Web = Field(default_factory=Web)
    notify: Notify = Field(default_factory=Notify)
    repo: dict[str, Repo] = Field(default_factory=dict)
    agent: dict[str, Agent] = Field(default_factory=dict)


# Tables that stand by themselves; `repo` and `agent` hold one table per name.
PLAIN_TABLES: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}


# A variable that is called so holds a secret; a short value would hide ordinary words.
_SECRET_NAME = re.compile(r"(API_?KEY|AUTH_TOKEN|OAUTH_TOKEN|ACCESS_TOKEN|SECRET|PASSWORD)$")
MIN_SECRET_LENGTH = 8


def read_named_secrets(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    """The values that must appear nowhere: of every `…_env` key, and of whatever is called so.

    Keys of the agents' providers are among these: an agent may print its own.
    """
    ours = {*_values_of_keys(settings, "_env"), "PGPASSWORD"}
    called_so = {name for name in environment if _SECRET_NAME.search(name.upper())}
    for name in sorted(ours | called_so):
        value = environment.get(name, "")
        if len(value) >= (1 if name in ours else MIN_SECRET_LENGTH):
            yield value


def list_secret_files(settings: Settings) -> tuple[Path, ...]:
    """The files that hold a secret of ours: of every `…_file` key."""
    names = sorted({name for name in _values_of_keys(settings, "_file") if name})
    return tuple(Path(os.path.expanduser(name)).absolute() for name in names)  # noqa: PTH111


def _values_of_keys(settings: Settings, ending: str) -> Iterator[str]:
    for section in (settings.github, settings.web, settings.notify):
        for key in type(section).model_fields:
            if key.endswith(ending):
                yield getattr(section, key)
