"""Gemini CLI: `gemini --output-format stream-json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from hostler.agents.events import (
    Event,
    Fault,
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
from hostler.agents.foreign import detail, inner, object_in, whole, words
from hostler.agents.lastword import in_its_words, last_word
from hostler.agents.launch import Assignment, Launch
from hostler.agents.outcomes import LIMITS, Outcome
from hostler.agents.program import Program
from hostler.agents.statuses import by_status
from hostler.agents.streamed import Reading, Streamed, nothing
from hostler.agents.tally import Tally
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.agents.waits import seconds_of
from hostler.config.settings import Agent

PROGRAM = Program(
    name="gemini",
    known="0.61.0",
    variables=(
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
    ),
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    # Otherwise it starts itself once more, and signals reach only the first of the two.
    settings={"GEMINI_CLI_NO_RELAUNCH": "true"},
)
# In a folder that nobody has called trusted, it would refuse to begin.
FREE = ("--approval-mode", "yolo", "--skip-trust")
_CODES = {
    41: Outcome.AUTH,
    42: Outcome.CONFIG,
    44: Outcome.CONFIG,
    52: Outcome.CONFIG,
    53: Outcome.LIMIT,
}
# It ends with the lowest byte of the HTTP status.
_STATUSES = {status & 0xFF: status for status in (400, 401, 403, 404, 429, 500, 502, 503, 504, 529)}
_API_ERROR = re.compile(r"\[API Error: (.*?)\](?:\n.*)?", re.DOTALL)
_EXHAUSTED = "You have exhausted your daily quota on this model."
_UNREACHED = frozenset({"terminated", "exception TypeError: fetch failed sending request"})
_NO_END = "Model stream ended without a finish reason."
_AGAIN = re.compile(r"^Suggested retry after (\d{1,9}(?:\.\d{1,9})?)s\.", re.MULTILINE)
_ATTEMPT = re.compile(r"Attempt \d+ failed(?: with status (\d{3}))?[.:] ")
_GIVEN_UP = "Max attempts reached"


def _init(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Started("gemini", model=words(raw, "model"))
    yield Session(words(raw, "session_id"))


def _message(raw: Mapping[str, Any]) -> Iterator[Event]:
    if words(raw, "role") == "assistant":
        yield Text(words(raw, "content"), delta=raw.get("delta") is True)


def _tool(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield ToolUse(words(raw, "tool_name"), detail(inner(raw, "parameters")))


def _error(raw: Mapping[str, Any]) -> Iterator[Event]:
    if words(raw, "message") == _NO_END:
        yield Fault(Outcome.SERVER_ERROR)
    else:
        yield Noise(words(raw, "message"))


def _result(raw: Mapping[str, Any]) -> Iterator[Event]:
    stats = inner(raw, "stats")
    spent = whole(stats, "input_tokens"), whole(stats, "output_tokens"), whole(stats, "cached")
    yield Usage(*spent, total=True)
    if words(raw, "status") == "success":
        yield Finished(True)
        return
    message = words(inner(raw, "error"), "message")
    outcome = class_of(message)
    if outcome in LIMITS:
        yield LimitSignal(outcome, retry_after_seconds=_wait(message))
    yield Finished(False, outcome, message)


def class_of(message: str) -> Outcome | None:
    """What the error of its last event says, as the provider's object or as its whole text."""
    found = _API_ERROR.fullmatch(message)
    said = found[1] if found else ""
    if said == _EXHAUSTED:
        return Outcome.QUOTA
    if said in _UNREACHED:
        return Outcome.NETWORK
    return by_status(whole(inner(object_in(said) or {}, "error"), "code"))


def _wait(message: str) -> float:
    found = _AGAIN.search(message)
    return seconds_of(found[1]) if found else 0.0


def _retries(text: str) -> Iterator[Event]:
    """That it tries again is said beside its stream, and nowhere else."""
    found = _ATTEMPT.match(text)
    if found and not text.rstrip().endswith(_GIVEN_UP):
        status = int(found[1] or 0)
        unknown = Outcome.RATE_LIMITED if ": " in found[0] else Outcome.NETWORK
        yield Retrying(by_status(status) or unknown, 0.0, status)


class Gemini(Streamed):
    """Its flags, and what its lines mean."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, Reading]] = {
        "init": _init,
        "message": _message,
        "tool_use": _tool,
        "tool_result": nothing,
        "error": _error,
        "result": _result,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), "--output-format", "stream-json"]
        if agent.permissions == "all":
            argv += FREE
        if agent.model:
            argv += ["--model", agent.model]
        if session := PROGRAM.resumed(work):
            argv += ["--resume", session]
        return Launch((*argv, *agent.extra_args), str(work.checkout), env, str(work.prompt_file))

    def aside(self, text: str) -> Iterator[Event]:
        return _retries(text)

    def own_word(self, exit_code: int | None, tally: Tally, /) -> Verdict:
        """Its exit code has more to say than others': for what its last event does not name."""
        found, code = last_word(exit_code, tally), exit_code or 0
        ended = tally.finished
        if ended is not None and not ended.ok and found.outcome is Outcome.CRASH:
            outcome = by_status(_STATUSES.get(code, 0))
        elif ended is None:
            outcome = _CODES.get(code)
        else:
            outcome = None
        if outcome is None:
            return found
        why = in_its_words(ended.text, outcome) if ended else found.why
        limit = None
        if ended and outcome in LIMITS:
            # Only now is it known that the wait in its words is for a limit.
            limit = LimitSignal(outcome, _STATUSES.get(code, 0), _wait(ended.text))
        return replace(found, outcome=outcome, decided_by=DecidedBy.EXIT_CODE, why=why, limit=limit)
