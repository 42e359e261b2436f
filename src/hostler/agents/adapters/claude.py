"""Claude Code: `claude -p` with its JSON stream."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from hostler.agents.adapters.base import (
    AgentProgram,
    LineParser,
    LoginQuery,
    StreamAdapter,
    ignore_line,
)
from hostler.agents.adapters.json_access import (
    describe_tool_input,
    get_count,
    get_number,
    get_object,
    get_text,
    get_timestamp,
    parse_object,
)
from hostler.agents.adapters.provider_errors import (
    classify_error_code,
    classify_status,
    needs_payment,
)
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.events import (
    CostEvent,
    Event,
    Finished,
    Headroom,
    LimitSignal,
    RequestFailed,
    Retrying,
    SessionEvent,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import Outcome
from hostler.config.settings import Agent


def _is_logged_in(_code: int, out: str, _err: str) -> bool | None:
    told = (parse_object(out) or {}).get("loggedIn")
    return told if isinstance(told, bool) else None


PROGRAM = AgentProgram(
    name="claude",
    known="2.1.325",
    variables=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
    ),
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    # An update during a run would run a version that was not checked.
    settings={"DISABLE_AUTOUPDATER": "1"},
    login=LoginQuery(("auth", "status"), _is_logged_in),
    carried=frozenset({"usd"}),
)
STREAM_OPTIONS = ("-p", "--output-format", "stream-json", "--verbose")
# As root it refuses to skip permissions; then each needed permission is granted.
SKIP_PERMISSIONS = ("--dangerously-skip-permissions",)
ALLOWED_TOOLS = (
    "Bash Edit Write NotebookEdit Read Glob Grep WebFetch WebSearch Task TodoWrite Skill"
)
ALLOW_TOOLS_AS_ROOT = ("--permission-mode", "acceptEdits", "--allowed-tools", ALLOWED_TOOLS)
# The model name of messages that the program itself writes.
SYNTHETIC_MODEL = "<synthetic>"
_LIMIT_SUBTYPES = frozenset({"error_max_turns", "error_max_budget_usd"})
# Windows of the whole account are called `five_hour` and `seven_day`; a model's name follows.
_ONE_MODEL_PREFIXES = ("five_hour_", "seven_day_")
MAX_UTILISATION = 0.99
_API_ERRORS = {
    "usage_limit_reached": Outcome.QUOTA,
    "connection_failed": Outcome.NETWORK,
    "stream_idle_timeout": Outcome.TIMEOUT,
}
# The only failure that it identifies by its full message alone.
_TIMED_OUT = "Request timed out"


def _parse_system(raw: Mapping[str, Any]) -> Iterator[Event]:
    subtype = get_text(raw, "subtype")
    if subtype == "init":
        yield Started("claude", get_text(raw, "claude_code_version"), get_text(raw, "model"))
        yield SessionEvent(get_text(raw, "session_id"))
    elif subtype == "api_retry":
        status = get_count(raw, "error_status")
        reason = (
            classify_status(status)
            or classify_error_code(get_text(raw, "error"))
            or Outcome.NETWORK
        )
        yield Retrying(reason, get_number(raw, "retry_delay_ms") / 1000, status)


def _parse_assistant(raw: Mapping[str, Any]) -> Iterator[Event]:
    message = get_object(raw, "message")
    if get_text(message, "model") == SYNTHETIC_MODEL:
        # A message of the program about a failed request, not model output.
        word = get_text(raw, "error")
        reason = classify_error_code(word)
        if reason is not None:
            yield RequestFailed(reason, get_count(raw, "api_error_status"))
        if needs_payment(0, word):
            # By its own code, and not by a window: someone has to pay.
            yield LimitSignal(Outcome.QUOTA, get_count(raw, "api_error_status"), person=True)
        return
    content = message.get("content")
    for block in content if isinstance(content, list) else []:
        part = get_object({"part": block}, "part")
        if get_text(part, "type") == "text":
            yield Text(get_text(part, "text"))
        elif get_text(part, "type") == "tool_use":
            yield ToolUse(get_text(part, "name"), describe_tool_input(get_object(part, "input")))
    if name := get_text(message, "id"):
        yield _parse_usage(get_object(message, "usage"), of=name)


def _parse_rate_limit(raw: Mapping[str, Any]) -> Iterator[Event]:
    """A subscription's window. A warning, or paid overage, is not a limit."""
    info = get_object(raw, "rate_limit_info")
    yield from _parse_headroom(info)
    if get_text(info, "status") == "rejected" and get_text(info, "overageStatus") != "allowed":
        one_model = get_text(info, "rateLimitType").startswith(_ONE_MODEL_PREFIXES)
        resets = get_timestamp(info, "resetsAt")
        yield LimitSignal(Outcome.QUOTA, 429, resets_at=resets, one_model=one_model)


def _parse_headroom(info: Mapping[str, Any]) -> Iterator[Event]:
    """Return how much of the fullest window is used, if it is reported.

    Less than all of it: a refusal has its own event, and paid overage continues. A window of
    one model alone does not count for the others.
    """
    windows = get_object(info, "unifiedWindows")
    shared = [
        get_object(windows, name) for name in windows if not name.startswith(_ONE_MODEL_PREFIXES)
    ]
    if not get_text(info, "rateLimitType").startswith(_ONE_MODEL_PREFIXES):
        shared.append(info)
    known = [one for one in shared if _has_utilisation(one)]
    if known:
        fullest = max(known, key=lambda one: get_number(one, "utilization"))
        resets = get_timestamp(fullest, "resetsAt") or get_timestamp(info, "resetsAt")
        yield Headroom(min(get_number(fullest, "utilization"), MAX_UTILISATION), resets)


def _has_utilisation(window: Mapping[str, Any]) -> bool:
    return isinstance(window.get("utilization"), int | float)


def _parse_result(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield SessionEvent(get_text(raw, "session_id"))
    yield _parse_usage(get_object(raw, "usage"), total=True)
    yield CostEvent(get_number(raw, "total_cost_usd"), total=True)
    if raw.get("is_error") is False and get_text(raw, "subtype") == "success":
        yield Finished(True, text=get_text(raw, "result"))
        return
    outcome, status = _classify_result(raw), get_count(raw, "api_error_status")
    if outcome is Outcome.QUOTA and needs_payment(status, get_text(raw, "api_error_type")):
        yield LimitSignal(outcome, status, person=True)
    elif outcome is Outcome.RATE_LIMITED or outcome is Outcome.OVERLOADED:
        yield LimitSignal(outcome, status)
    yield Finished(False, outcome, _failure_text(raw))


def _classify_result(raw: Mapping[str, Any]) -> Outcome | None:
    """Classify the failure in its last event by its codes and numbers."""
    if get_text(raw, "subtype") in _LIMIT_SUBTYPES:
        return Outcome.LIMIT
    told = classify_error_code(get_text(raw, "api_error_type"))
    # A hard limit may come with any status.
    found = _API_ERRORS.get(get_text(raw, "api_error")) or (told if told is Outcome.QUOTA else None)
    found = found or classify_status(get_count(raw, "api_error_status")) or told
    if found is not None:
        return found
    if get_text(raw, "terminal_reason") == "api_error" and raw.get("result") == _TIMED_OUT:
        return Outcome.TIMEOUT
    # It ended before its first turn: the session to resume does not exist.
    never_began = get_text(raw, "subtype") == "error_during_execution" and raw.get("num_turns") == 0
    return Outcome.CONFIG if never_began else None


def _failure_text(raw: Mapping[str, Any]) -> str:
    errors = raw.get("errors")
    told = [one for one in errors if isinstance(one, str)] if isinstance(errors, list) else []
    return get_text(raw, "result") or " ".join(told)


def _parse_usage(raw: Mapping[str, Any], *, total: bool = False, of: str = "") -> Usage:
    read, written = (
        get_count(raw, "cache_read_input_tokens"),
        get_count(raw, "cache_creation_input_tokens"),
    )
    # Its input count is only what was not cached.
    every = get_count(raw, "input_tokens") + written + read
    return Usage(every, get_count(raw, "output_tokens"), read, total, of)


class ClaudeAdapter(StreamAdapter):
    """Starts Claude Code and parses its stream."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, LineParser]] = {
        "system": _parse_system,
        "assistant": _parse_assistant,
        "rate_limit_event": _parse_rate_limit,
        "result": _parse_result,
        # Tool results, and partial messages that are repeated in full later.
        "user": ignore_line,
        "stream_event": ignore_line,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), *STREAM_OPTIONS]
        if agent.permissions == "all":
            argv += ALLOW_TOOLS_AS_ROOT if os.geteuid() == 0 else SKIP_PERMISSIONS
        if agent.model:
            argv += ["--model", agent.model]
        if session := PROGRAM.session_argument(work):
            argv += ["--resume", session]
        return Launch((*argv, *agent.extra_args), str(work.checkout), env, str(work.prompt_file))
