"""Codex: `codex exec --json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from hostler.agents.clocktime import clock_time_in
from hostler.agents.events import (
    Event,
    Finished,
    LimitSignal,
    Noise,
    Retrying,
    Session,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.foreign import detail, first_object_in, inner, whole, words
from hostler.agents.launch import Assignment, Launch
from hostler.agents.outcomes import LIMITS, Outcome
from hostler.agents.program import Login, Program
from hostler.agents.statuses import by_status, by_word, is_bill
from hostler.agents.streamed import Reading, Streamed, nothing
from hostler.agents.waits import wait_in
from hostler.config.settings import Agent


def _logged_in(code: int, _out: str, err: str) -> bool | None:
    if code == 0:
        return True
    return False if "Not logged in" in err.splitlines() else None


PROGRAM = Program(
    name="codex",
    known="0.166.0",
    variables=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"),
    # It reads the other one only where its own settings name it.
    keys=("CODEX_API_KEY",),
    login=Login(("login", "status"), _logged_in),
    carried=frozenset({"usage"}),
)
# Plugins fetch from a git repository of their own, and take their time for it.
STREAM = ("--json", "--disable", "plugins", "--skip-git-repo-check")
# A login shell would find its PATH anew, and neither `hostler` nor the programs of the operator.
SHELL = ("-c", "allow_login_shell=false")
FREE = ("--dangerously-bypass-approvals-and-sandbox",)
_STATUS = re.compile(r"(?:exceeded retry limit, last status:|unexpected status) (\d{3})\b")
# What its provider answered stands behind the status and its name.
_ANSWER = re.compile(r"unexpected status \d{3} [A-Za-z -]{0,60}: (?=\{)")
_RECONNECTING = re.compile(r"Reconnecting\.\.\. \d+/\d+ \((.*)\)\s*", re.DOTALL)
# Only somebody who pays can end these.
_BILLING = ("Quota exceeded", "Your workspace is out of credits", "You hit your spend cap")
_CUT = "stream disconnected before completion"
# The beginnings of its last error, in this order. Nothing else in its stream is ever read so.
_BEGINNINGS = (
    *((beginning, Outcome.QUOTA) for beginning in _BILLING),
    ("You\u2019ve hit your usage limit", Outcome.QUOTA),
    ("You've hit your usage limit", Outcome.QUOTA),
    ("rate limit exceeded:", Outcome.RATE_LIMITED),
    ("Selected model is at capacity", Outcome.OVERLOADED),
    ("We\u2019re currently experiencing high demand", Outcome.SERVER_ERROR),
    ("We're currently experiencing high demand", Outcome.SERVER_ERROR),
    ("Missing environment variable:", Outcome.AUTH),
    (f"{_CUT}: idle timeout", Outcome.TIMEOUT),
    (f"{_CUT}: Internal server error", Outcome.SERVER_ERROR),
    (_CUT, Outcome.NETWORK),
)
_TOOLS = frozenset({"command_execution", "mcp_tool_call", "web_search", "collab_tool_call"})


def class_of(message: str) -> Outcome | None:
    """What an error of its own says, by its beginning or as the provider's error object. Pure."""
    code, kind = _said(message)
    told = by_word(code) or by_word(kind)
    if found := _STATUS.match(message):
        return told if told is Outcome.QUOTA else by_status(int(found[1]))
    for beginning, outcome in _BEGINNINGS:
        if message.startswith(beginning):
            return outcome
    return told


def _said(message: str) -> tuple[str, str]:
    """The words of the provider's error object: the whole message, or what follows its status."""
    answer = _ANSWER.match(message)
    error = inner(first_object_in(message[answer.end() :] if answer else message) or {}, "error")
    return words(error, "code"), words(error, "type")


def _thread(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Started("codex")
    yield Session(words(raw, "thread_id"))


def _item(raw: Mapping[str, Any]) -> Iterator[Event]:
    item, begun = inner(raw, "item"), words(raw, "type") == "item.started"
    kind = words(item, "type")
    if kind in _TOOLS and begun:
        yield ToolUse(kind, detail(item))
    elif kind == "file_change" and not begun:
        yield ToolUse(kind, _changed(item))
    elif kind == "agent_message" and not begun:
        yield Text(words(item, "text"))
    elif kind == "error":
        # A warning, whatever it is called.
        yield Noise(words(item, "message"))


def _changed(item: Mapping[str, Any]) -> str:
    found = item.get("changes")
    changes = found if isinstance(found, list) else []
    paths = [words(one, "path") for one in changes if isinstance(one, dict)]
    return " ".join(path for path in paths if path)[:200]


def _completed(raw: Mapping[str, Any]) -> Iterator[Event]:
    usage = inner(raw, "usage")
    spent = whole(usage, "input_tokens"), whole(usage, "output_tokens")
    yield Usage(*spent, whole(usage, "cached_input_tokens"), total=True)
    yield Finished(True)


def _failed(raw: Mapping[str, Any]) -> Iterator[Event]:
    message = words(inner(raw, "error"), "message")
    outcome = class_of(message)
    if outcome in LIMITS:
        person = outcome is Outcome.QUOTA and _waits_for_a_person(message)
        yield LimitSignal(
            outcome,
            _number(message),
            wait_in(message),
            person=person,
            clock_time=clock_time_in(message),
        )
    yield Finished(False, outcome, message)


def _waits_for_a_person(message: str) -> bool:
    return message.startswith(_BILLING) or is_bill(_number(message), *_said(message))


def _error(raw: Mapping[str, Any]) -> Iterator[Event]:
    """It tries again; what it says before it gives up comes once more as the end of its turn."""
    found = _RECONNECTING.fullmatch(words(raw, "message"))
    if found:
        reason = class_of(found[1]) or Outcome.NETWORK
        yield Retrying(reason, wait_in(found[1]), _number(found[1]))


def _number(message: str) -> int:
    found = _STATUS.match(message)
    return int(found[1]) if found else 0


class Codex(Streamed):
    """Its flags, and what its lines mean."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, Reading]] = {
        "thread.started": _thread,
        "turn.started": nothing,
        "turn.completed": _completed,
        "turn.failed": _failed,
        "item.started": _item,
        "item.updated": nothing,
        "item.completed": _item,
        "error": _error,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), "exec", *STREAM, *SHELL]
        if agent.permissions == "all":
            argv += FREE
        if agent.model:
            argv += ["--model", agent.model]
        argv += agent.extra_args
        if session := PROGRAM.resumed(work):
            argv += ["resume", session]
        # The prompt comes on standard input.
        return Launch((*argv, "-"), str(work.checkout), env, str(work.prompt_file))
