"""opencode: `opencode run --format json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from hostler.agents.adapters.base import AgentProgram, LineParser, LoginQuery, StreamAdapter
from hostler.agents.adapters.json_access import (
    describe_tool_input,
    get_count,
    get_number,
    get_object,
    get_text,
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
    SessionEvent,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.config.settings import Agent

_CREDENTIAL_COUNT = re.compile(r"\b(\d{1,9}) (?:credentials?|environment variables?)\b")


def _is_logged_in(_code: int, out: str, _err: str) -> bool | None:
    """Some of its models need no login, so it never reports a missing one."""
    return True if any(int(count) for count in _CREDENTIAL_COUNT.findall(out)) else None


PROGRAM = AgentProgram(
    name="opencode",
    known="1.18.33",
    # It can call any provider, so its settings name the key.
    variables=("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    settings={"OPENCODE_DISABLE_AUTOUPDATE": "true"},
    login=LoginQuery(("auth", "list"), _is_logged_in),
    session=r"ses_[0-9A-Za-z]{10,60}",
)
_OUTCOMES_BY_NAME = {
    "ProviderAuthError": Outcome.AUTH,
    "ContextOverflowError": Outcome.BAD_REQUEST,
    "MessageOutputLengthError": Outcome.LIMIT,
}
_API_ERROR, _UNKNOWN_ERROR = "APIError", "UnknownError"
# The header of the retry delay; only headers of errors are printed.
_REMAINING = "x-ratelimit-remaining-requests"
_TOOLS_FOLLOW = "tool-calls"


def _parse_step_start(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Started("opencode")
    yield SessionEvent(get_text(raw, "sessionID"))


def _parse_text(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Text(get_text(get_object(raw, "part"), "text"))


def _parse_tool(raw: Mapping[str, Any]) -> Iterator[Event]:
    part = get_object(raw, "part")
    yield ToolUse(get_text(part, "tool"), describe_tool_input(get_object(part, "state", "input")))


def _parse_step_finish(raw: Mapping[str, Any]) -> Iterator[Event]:
    part = get_object(raw, "part")
    tokens, cache = get_object(part, "tokens"), get_object(part, "tokens", "cache")
    output = get_count(tokens, "output") + get_count(tokens, "reasoning")
    read = get_count(cache, "read")
    # Its input count is only what was not cached.
    yield Usage(get_count(tokens, "input") + get_count(cache, "write") + read, output, read)
    yield CostEvent(get_number(part, "cost"))
    reason = get_text(part, "reason")
    if reason == "stop":
        yield Finished(True)
    elif reason == "length":
        yield Finished(False, Outcome.LIMIT, "A message reached the model's longest output.")
    elif reason != _TOOLS_FOLLOW:
        yield Finished(False, None, f"A step ended with {reason!r}.")


def _parse_error(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield SessionEvent(get_text(raw, "sessionID"))
    error = get_object(raw, "error")
    data = get_object(error, "data")
    outcome = classify_error(get_text(error, "name"), data)
    if outcome in LIMIT_OUTCOMES:
        wait = _parse_seconds(get_text(get_object(data, "responseHeaders"), "retry-after"))
        status = get_count(data, "statusCode")
        person = outcome is Outcome.QUOTA and needs_payment(status, *_error_codes(data))
        yield LimitSignal(outcome, status, wait, person=person)
    if get_text(get_object(data, "responseHeaders"), _REMAINING) == "0":
        yield Headroom(1.0)
    yield Finished(False, outcome, get_text(data, "message"))


def classify_error(name: str, data: Mapping[str, Any]) -> Outcome | None:
    """Classify an error; codes of the provider that name a hard limit come first. Pure."""
    if name in _OUTCOMES_BY_NAME:
        return _OUTCOMES_BY_NAME[name]
    code, kind = _error_codes(data)
    told = classify_error_code(code) or classify_error_code(kind)
    if name == _API_ERROR:
        if told is Outcome.QUOTA:
            return told
        # Without a status there was no answer.
        status = data.get("statusCode")
        return (
            classify_status(get_count(data, "statusCode"))
            if status is not None
            else Outcome.NETWORK
        )
    if name == _UNKNOWN_ERROR:
        return told
    return None


def _error_codes(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the provider's codes of an error; inside a stream, they are in the message."""
    body = get_object(parse_object(get_text(data, "responseBody")) or {}, "error")
    error = body or parse_object(get_text(data, "message")) or {}
    return get_text(error, "code"), get_text(error, "type")


def _parse_seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


class OpencodeAdapter(StreamAdapter):
    """Starts opencode and parses its stream."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, LineParser]] = {
        "step_start": _parse_step_start,
        "text": _parse_text,
        "tool_use": _parse_tool,
        "step_finish": _parse_step_finish,
        "error": _parse_error,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), "run", "--format", "json"]
        if agent.permissions == "all":
            argv += ["--auto"]
        if agent.model:
            argv += ["--model", agent.model]
        if session := PROGRAM.session_argument(work):
            argv += ["--session", session]
        return Launch((*argv, *agent.extra_args), str(work.checkout), env, str(work.prompt_file))
