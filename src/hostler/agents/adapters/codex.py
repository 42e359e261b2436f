"""Codex: `codex exec --json`."""

from __future__ import annotations

import re
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
    get_object,
    get_text,
    parse_leading_object,
)
from hostler.agents.adapters.provider_errors import (
    classify_error_code,
    classify_status,
    find_clock_time,
    needs_payment,
    parse_retry_delay,
)
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.events import (
    Event,
    Finished,
    LimitSignal,
    Noise,
    Retrying,
    SessionEvent,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.config.settings import Agent


def _is_logged_in(code: int, _out: str, err: str) -> bool | None:
    if code == 0:
        return True
    return False if "Not logged in" in err.splitlines() else None


PROGRAM = AgentProgram(
    name="codex",
    known="0.166.0",
    variables=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"),
    # It reads the other one only if its settings name it.
    keys=("CODEX_API_KEY",),
    login=LoginQuery(("login", "status"), _is_logged_in),
    carried=frozenset({"usage"}),
)
# Plugins are fetched from a git repository, which takes time.
STREAM_OPTIONS = ("--json", "--disable", "plugins", "--skip-git-repo-check")
# A login shell would reset PATH and lose `hostler` and the operator's programs.
SHELL_OPTIONS = ("-c", "allow_login_shell=false")
SKIP_PERMISSIONS = ("--dangerously-bypass-approvals-and-sandbox",)
_STATUS = re.compile(r"(?:exceeded retry limit, last status:|unexpected status) (\d{3})\b")
# The provider's answer follows the status and its name.
_ANSWER = re.compile(r"unexpected status \d{3} [A-Za-z -]{0,60}: (?=\{)")
_RECONNECTING = re.compile(r"Reconnecting\.\.\. \d+/\d+ \((.*)\)\s*", re.DOTALL)
# Only paying can lift these.
_BILLING = ("Quota exceeded", "Your workspace is out of credits", "You hit your spend cap")
_DISCONNECTED = "stream disconnected before completion"
# Prefixes of its last error, in this order. No other text in its stream is matched this way.
_OUTCOMES_BY_PREFIX = (
    *((beginning, Outcome.QUOTA) for beginning in _BILLING),
    ("You\u2019ve hit your usage limit", Outcome.QUOTA),
    ("You've hit your usage limit", Outcome.QUOTA),
    ("rate limit exceeded:", Outcome.RATE_LIMITED),
    ("Selected model is at capacity", Outcome.OVERLOADED),
    ("We\u2019re currently experiencing high demand", Outcome.SERVER_ERROR),
    ("We're currently experiencing high demand", Outcome.SERVER_ERROR),
    ("Missing environment variable:", Outcome.AUTH),
    (f"{_DISCONNECTED}: idle timeout", Outcome.TIMEOUT),
    (f"{_DISCONNECTED}: Internal server error", Outcome.SERVER_ERROR),
    (_DISCONNECTED, Outcome.NETWORK),
)
_TOOLS = frozenset({"command_execution", "mcp_tool_call", "web_search", "collab_tool_call"})


def classify_error(message: str) -> Outcome | None:
    """Classify its error, by its prefix or as the provider's error object. Pure."""
    code, kind = _error_codes(message)
    told = classify_error_code(code) or classify_error_code(kind)
    if found := _STATUS.match(message):
        return told if told is Outcome.QUOTA else classify_status(int(found[1]))
    for beginning, outcome in _OUTCOMES_BY_PREFIX:
        if message.startswith(beginning):
            return outcome
    return told


def _error_codes(message: str) -> tuple[str, str]:
    """Return the codes of the provider's error object: the message, or what follows its status."""
    answer = _ANSWER.match(message)
    error = get_object(
        parse_leading_object(message[answer.end() :] if answer else message) or {}, "error"
    )
    return get_text(error, "code"), get_text(error, "type")


def _parse_thread(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Started("codex")
    yield SessionEvent(get_text(raw, "thread_id"))


def _parse_item(raw: Mapping[str, Any]) -> Iterator[Event]:
    item, begun = get_object(raw, "item"), get_text(raw, "type") == "item.started"
    kind = get_text(item, "type")
    if kind in _TOOLS and begun:
        yield ToolUse(kind, describe_tool_input(item))
    elif kind == "file_change" and not begun:
        yield ToolUse(kind, _changed_paths(item))
    elif kind == "agent_message" and not begun:
        yield Text(get_text(item, "text"))
    elif kind == "error":
        # A warning, in spite of its name.
        yield Noise(get_text(item, "message"))


def _changed_paths(item: Mapping[str, Any]) -> str:
    found = item.get("changes")
    changes = found if isinstance(found, list) else []
    paths = [get_text(one, "path") for one in changes if isinstance(one, dict)]
    return " ".join(path for path in paths if path)[:200]


def _parse_completed(raw: Mapping[str, Any]) -> Iterator[Event]:
    usage = get_object(raw, "usage")
    spent = get_count(usage, "input_tokens"), get_count(usage, "output_tokens")
    yield Usage(*spent, get_count(usage, "cached_input_tokens"), total=True)
    yield Finished(True)


def _parse_failed(raw: Mapping[str, Any]) -> Iterator[Event]:
    message = get_text(get_object(raw, "error"), "message")
    outcome = classify_error(message)
    if outcome in LIMIT_OUTCOMES:
        person = outcome is Outcome.QUOTA and _needs_payment(message)
        yield LimitSignal(
            outcome,
            _status_in(message),
            parse_retry_delay(message),
            person=person,
            clock_time=find_clock_time(message),
        )
    yield Finished(False, outcome, message)


def _needs_payment(message: str) -> bool:
    return message.startswith(_BILLING) or needs_payment(
        _status_in(message), *_error_codes(message)
    )


def _parse_error(raw: Mapping[str, Any]) -> Iterator[Event]:
    """It retries; an error before it gives up is repeated at the end of its turn."""
    found = _RECONNECTING.fullmatch(get_text(raw, "message"))
    if found:
        reason = classify_error(found[1]) or Outcome.NETWORK
        yield Retrying(reason, parse_retry_delay(found[1]), _status_in(found[1]))


def _status_in(message: str) -> int:
    found = _STATUS.match(message)
    return int(found[1]) if found else 0


class CodexAdapter(StreamAdapter):
    """Starts Codex and parses its stream."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, LineParser]] = {
        "thread.started": _parse_thread,
        "turn.started": ignore_line,
        "turn.completed": _parse_completed,
        "turn.failed": _parse_failed,
        "item.started": _parse_item,
        "item.updated": ignore_line,
        "item.completed": _parse_item,
        "error": _parse_error,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), "exec", *STREAM_OPTIONS, *SHELL_OPTIONS]
        if agent.permissions == "all":
            argv += SKIP_PERMISSIONS
        if agent.model:
            argv += ["--model", agent.model]
        argv += agent.extra_args
        if session := PROGRAM.session_argument(work):
            argv += ["resume", session]
        # The prompt is passed on standard input.
        return Launch((*argv, "-"), str(work.checkout), env, str(work.prompt_file))
