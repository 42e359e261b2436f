"""Claude Code: `claude -p` with its stream of JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from hostler.agents.events import (
    Cost,
    Event,
    Fault,
    Finished,
    Headroom,
    LimitSignal,
    Retrying,
    Session,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.foreign import amount, detail, inner, moment, object_in, whole, words
from hostler.agents.launch import Assignment, Launch
from hostler.agents.outcomes import Outcome
from hostler.agents.program import Login, Program
from hostler.agents.statuses import by_status, by_word, is_bill
from hostler.agents.streamed import Reading, Streamed, nothing
from hostler.config.settings import Agent


def _logged_in(_code: int, out: str, _err: str) -> bool | None:
    told = (object_in(out) or {}).get("loggedIn")
    return told if isinstance(told, bool) else None


PROGRAM = Program(
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
    # A program that replaces itself under a running agent would be another than was tried.
    settings={"DISABLE_AUTOUPDATER": "1"},
    login=Login(("auth", "status"), _logged_in),
    carried=frozenset({"usd"}),
)
STREAM = ("-p", "--output-format", "stream-json", "--verbose")
# As root it refuses to skip permissions; there, what work needs is allowed one by one.
FREE = ("--dangerously-skip-permissions",)
TOOLS = "Bash Edit Write NotebookEdit Read Glob Grep WebFetch WebSearch Task TodoWrite Skill"
FREE_AS_ROOT = ("--permission-mode", "acceptEdits", "--allowed-tools", TOOLS)
# What its messages about itself are by: they are no model's.
SYNTHETIC = "<synthetic>"
_CAPS = frozenset({"error_max_turns", "error_max_budget_usd"})
# Windows of the whole account are called `five_hour` and `seven_day`; a model's name follows.
_OF_ONE_MODEL = ("five_hour_", "seven_day_")
ALMOST = 0.99
_API_ERRORS = {
    "usage_limit_reached": Outcome.QUOTA,
    "connection_failed": Outcome.NETWORK,
    "stream_idle_timeout": Outcome.TIMEOUT,
}
# The one failure that it names by nothing but its whole sentence.
_TIMED_OUT = "Request timed out"


def _system(raw: Mapping[str, Any]) -> Iterator[Event]:
    subtype = words(raw, "subtype")
    if subtype == "init":
        yield Started("claude", words(raw, "claude_code_version"), words(raw, "model"))
        yield Session(words(raw, "session_id"))
    elif subtype == "api_retry":
        status = whole(raw, "error_status")
        reason = by_status(status) or by_word(words(raw, "error")) or Outcome.NETWORK
        yield Retrying(reason, amount(raw, "retry_delay_ms") / 1000, status)


def _assistant(raw: Mapping[str, Any]) -> Iterator[Event]:
    message = inner(raw, "message")
    if words(message, "model") == SYNTHETIC:
        # Its own words about a request that failed: no output of a model.
        word = words(raw, "error")
        reason = by_word(word)
        if reason is not None:
            yield Fault(reason, whole(raw, "api_error_status"))
        if is_bill(0, word):
            # By a word of its own, and not by a window: somebody has to pay.
            yield LimitSignal(Outcome.QUOTA, whole(raw, "api_error_status"), person=True)
        return
    content = message.get("content")
    for block in content if isinstance(content, list) else []:
        part = inner({"part": block}, "part")
        if words(part, "type") == "text":
            yield Text(words(part, "text"))
        elif words(part, "type") == "tool_use":
            yield ToolUse(words(part, "name"), detail(inner(part, "input")))
    if name := words(message, "id"):
        yield _usage(inner(message, "usage"), of=name)


def _window(raw: Mapping[str, Any]) -> Iterator[Event]:
    """A subscription's window. A warning, or one that is paid beyond, limits nobody."""
    info = inner(raw, "rate_limit_info")
    yield from _fullest(info)
    if words(info, "status") == "rejected" and words(info, "overageStatus") != "allowed":
        one_model = words(info, "rateLimitType").startswith(_OF_ONE_MODEL)
        resets = moment(info, "resetsAt")
        yield LimitSignal(Outcome.QUOTA, 429, resets_at=resets, one_model=one_model)


def _fullest(info: Mapping[str, Any]) -> Iterator[Event]:
    """How much of the fullest window is used up, where anything says so.

    Never all of it: who is refused says so with a word of its own, and who pays beyond goes on. A
    window of one model alone says nothing of the others.
    """
    windows = inner(info, "unifiedWindows")
    shared = [inner(windows, name) for name in windows if not name.startswith(_OF_ONE_MODEL)]
    if not words(info, "rateLimitType").startswith(_OF_ONE_MODEL):
        shared.append(info)
    known = [one for one in shared if _says(one)]
    if known:
        fullest = max(known, key=lambda one: amount(one, "utilization"))
        resets = moment(fullest, "resetsAt") or moment(info, "resetsAt")
        yield Headroom(min(amount(fullest, "utilization"), ALMOST), resets)


def _says(window: Mapping[str, Any]) -> bool:
    return isinstance(window.get("utilization"), int | float)


def _result(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Session(words(raw, "session_id"))
    yield _usage(inner(raw, "usage"), total=True)
    yield Cost(amount(raw, "total_cost_usd"), total=True)
    if raw.get("is_error") is False and words(raw, "subtype") == "success":
        yield Finished(True, text=words(raw, "result"))
        return
    outcome, status = _class(raw), whole(raw, "api_error_status")
    if outcome is Outcome.QUOTA and is_bill(status, words(raw, "api_error_type")):
        yield LimitSignal(outcome, status, person=True)
    elif outcome is Outcome.RATE_LIMITED or outcome is Outcome.OVERLOADED:
        yield LimitSignal(outcome, status)
    yield Finished(False, outcome, _sentence(raw))


def _class(raw: Mapping[str, Any]) -> Outcome | None:
    """What kind of failure its last event names, by words and numbers made for programs."""
    if words(raw, "subtype") in _CAPS:
        return Outcome.LIMIT
    told = by_word(words(raw, "api_error_type"))
    # A wall may come with any number.
    found = _API_ERRORS.get(words(raw, "api_error")) or (told if told is Outcome.QUOTA else None)
    found = found or by_status(whole(raw, "api_error_status")) or told
    if found is not None:
        return found
    if words(raw, "terminal_reason") == "api_error" and raw.get("result") == _TIMED_OUT:
        return Outcome.TIMEOUT
    # It ended before its first turn: the session to go on with is not there.
    never_began = words(raw, "subtype") == "error_during_execution" and raw.get("num_turns") == 0
    return Outcome.CONFIG if never_began else None


def _sentence(raw: Mapping[str, Any]) -> str:
    errors = raw.get("errors")
    told = [one for one in errors if isinstance(one, str)] if isinstance(errors, list) else []
    return words(raw, "result") or " ".join(told)


def _usage(raw: Mapping[str, Any], *, total: bool = False, of: str = "") -> Usage:
    read, written = whole(raw, "cache_read_input_tokens"), whole(raw, "cache_creation_input_tokens")
    # What it calls input is only what no cache was asked for.
    every = whole(raw, "input_tokens") + written + read
    return Usage(every, whole(raw, "output_tokens"), read, total, of)


class Claude(Streamed):
    """Its flags, and what its lines mean."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, Reading]] = {
        "system": _system,
        "assistant": _assistant,
        "rate_limit_event": _window,
        "result": _result,
        # What tools answered, and pieces of what comes whole afterwards.
        "user": nothing,
        "stream_event": nothing,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), *STREAM]
        if agent.permissions == "all":
            argv += FREE_AS_ROOT if os.geteuid() == 0 else FREE
        if agent.model:
            argv += ["--model", agent.model]
        if session := PROGRAM.resumed(work):
            argv += ["--resume", session]
        return Launch((*argv, *agent.extra_args), str(work.checkout), env, str(work.prompt_file))
