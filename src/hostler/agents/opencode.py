"""opencode: `opencode run --format json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from hostler.agents.events import (
    Cost,
    Event,
    Finished,
    Headroom,
    LimitSignal,
    Session,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.foreign import amount, detail, inner, object_in, whole, words
from hostler.agents.launch import Assignment, Launch
from hostler.agents.outcomes import LIMITS, Outcome
from hostler.agents.program import Login, Program
from hostler.agents.statuses import by_status, by_word, is_bill
from hostler.agents.streamed import Reading, Streamed
from hostler.config.settings import Agent

_LISTED = re.compile(r"\b(\d{1,9}) (?:credentials?|environment variables?)\b")


def _logged_in(_code: int, out: str, _err: str) -> bool | None:
    """Some of its models need nobody to be logged in, so it never says no."""
    return True if any(int(count) for count in _LISTED.findall(out)) else None


PROGRAM = Program(
    name="opencode",
    known="1.18.33",
    # It calls any provider: whose key it sees is for its settings to say.
    variables=("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    settings={"OPENCODE_DISABLE_AUTOUPDATE": "true"},
    login=Login(("auth", "list"), _logged_in),
    session=r"ses_[0-9A-Za-z]{10,60}",
)
_NAMES = {
    "ProviderAuthError": Outcome.AUTH,
    "ContextOverflowError": Outcome.BAD_REQUEST,
    "MessageOutputLengthError": Outcome.LIMIT,
}
_API_ERROR, _UNKNOWN_ERROR = "APIError", "UnknownError"
# The header with which a provider counts down; the error's are the only ones that are shown.
_REMAINING = "x-ratelimit-remaining-requests"
_TOOLS_FOLLOW = "tool-calls"


def _step_start(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Started("opencode")
    yield Session(words(raw, "sessionID"))


def _text(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Text(words(inner(raw, "part"), "text"))


def _tool(raw: Mapping[str, Any]) -> Iterator[Event]:
    part = inner(raw, "part")
    yield ToolUse(words(part, "tool"), detail(inner(part, "state", "input")))


def _step_finish(raw: Mapping[str, Any]) -> Iterator[Event]:
    part = inner(raw, "part")
    tokens, cache = inner(part, "tokens"), inner(part, "tokens", "cache")
    output = whole(tokens, "output") + whole(tokens, "reasoning")
    read = whole(cache, "read")
    # What it calls input is only what no cache was asked for.
    yield Usage(whole(tokens, "input") + whole(cache, "write") + read, output, read)
    yield Cost(amount(part, "cost"))
    reason = words(part, "reason")
    if reason == "stop":
        yield Finished(True)
    elif reason == "length":
        yield Finished(False, Outcome.LIMIT, "A message reached the model's longest output.")
    elif reason != _TOOLS_FOLLOW:
        yield Finished(False, None, f"A step ended with {reason!r}.")


def _error(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Session(words(raw, "sessionID"))
    error = inner(raw, "error")
    data = inner(error, "data")
    outcome = class_of(words(error, "name"), data)
    if outcome in LIMITS:
        wait = _seconds(words(inner(data, "responseHeaders"), "retry-after"))
        status = whole(data, "statusCode")
        person = outcome is Outcome.QUOTA and is_bill(status, *_said(data))
        yield LimitSignal(outcome, status, wait, person=person)
    if words(inner(data, "responseHeaders"), _REMAINING) == "0":
        yield Headroom(1.0)
    yield Finished(False, outcome, words(data, "message"))


def class_of(name: str, data: Mapping[str, Any]) -> Outcome | None:
    """What an error says: the provider's own words first where they name a wall. Pure."""
    if name in _NAMES:
        return _NAMES[name]
    code, kind = _said(data)
    told = by_word(code) or by_word(kind)
    if name == _API_ERROR:
        if told is Outcome.QUOTA:
            return told
        # Without a status there was no answer at all.
        status = data.get("statusCode")
        return by_status(whole(data, "statusCode")) if status is not None else Outcome.NETWORK
    if name == _UNKNOWN_ERROR:
        return told
    return None


def _said(data: Mapping[str, Any]) -> tuple[str, str]:
    """The provider's own words for an error; of one inside its stream, they are the message."""
    body = inner(object_in(words(data, "responseBody")) or {}, "error")
    error = body or object_in(words(data, "message")) or {}
    return words(error, "code"), words(error, "type")


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


class Opencode(Streamed):
    """Its flags, and what its lines mean."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, Reading]] = {
        "step_start": _step_start,
        "text": _text,
        "tool_use": _tool,
        "step_finish": _step_finish,
        "error": _error,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), "run", "--format", "json"]
        if agent.permissions == "all":
            argv += ["--auto"]
        if agent.model:
            argv += ["--model", agent.model]
        if session := PROGRAM.resumed(work):
            argv += ["--session", session]
        return Launch((*argv, *agent.extra_args), str(work.checkout), env, str(work.prompt_file))
