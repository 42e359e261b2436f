"""Gemini CLI: `gemini --output-format stream-json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from hostler.agents.adapters.base import (
    AgentProgram,
    LineParser,
    StreamAdapter,
    ignore_line,
    judge_stream_end,
    quote_failure,
)
from hostler.agents.adapters.json_access import (
    describe_tool_input,
    get_count,
    get_object,
    get_text,
    parse_object,
)
from hostler.agents.adapters.provider_errors import classify_status, parse_seconds
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.events import (
    Event,
    Finished,
    LimitSignal,
    Noise,
    RequestFailed,
    Retrying,
    SessionEvent,
    Started,
    StreamTally,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.config.settings import Agent

PROGRAM = AgentProgram(
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
    # Otherwise it restarts itself as a child, and signals reach only the parent.
    settings={"GEMINI_CLI_NO_RELAUNCH": "true"},
)
# In a folder that is not marked as trusted, it refuses to start.
SKIP_PERMISSIONS = ("--approval-mode", "yolo", "--skip-trust")
_OUTCOMES_BY_EXIT_CODE = {
    41: Outcome.AUTH,
    42: Outcome.CONFIG,
    44: Outcome.CONFIG,
    52: Outcome.CONFIG,
    53: Outcome.LIMIT,
}
# Its exit code is the lowest byte of the HTTP status.
_STATUS_BY_EXIT_CODE = {
    status & 0xFF: status for status in (400, 401, 403, 404, 429, 500, 502, 503, 504, 529)
}
_API_ERROR = re.compile(r"\[API Error: (.*?)\](?:\n.*)?", re.DOTALL)
_DAILY_QUOTA = "You have exhausted your daily quota on this model."
_NETWORK_ERRORS = frozenset({"terminated", "exception TypeError: fetch failed sending request"})
_NO_END = "Model stream ended without a finish reason."
_RETRY_AFTER = re.compile(r"^Suggested retry after (\d{1,9}(?:\.\d{1,9})?)s\.", re.MULTILINE)
_ATTEMPT = re.compile(r"Attempt \d+ failed(?: with status (\d{3}))?[.:] ")
_LAST_ATTEMPT = "Max attempts reached"


def _parse_init(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield Started("gemini", model=get_text(raw, "model"))
    yield SessionEvent(get_text(raw, "session_id"))


def _parse_message(raw: Mapping[str, Any]) -> Iterator[Event]:
    if get_text(raw, "role") == "assistant":
        yield Text(get_text(raw, "content"), delta=raw.get("delta") is True)


def _parse_tool(raw: Mapping[str, Any]) -> Iterator[Event]:
    yield ToolUse(get_text(raw, "tool_name"), describe_tool_input(get_object(raw, "parameters")))


def _parse_error(raw: Mapping[str, Any]) -> Iterator[Event]:
    if get_text(raw, "message") == _NO_END:
        yield RequestFailed(Outcome.SERVER_ERROR)
    else:
        yield Noise(get_text(raw, "message"))


def _parse_result(raw: Mapping[str, Any]) -> Iterator[Event]:
    stats = get_object(raw, "stats")
    spent = (
        get_count(stats, "input_tokens"),
        get_count(stats, "output_tokens"),
        get_count(stats, "cached"),
    )
    yield Usage(*spent, total=True)
    if get_text(raw, "status") == "success":
        yield Finished(True)
        return
    message = get_text(get_object(raw, "error"), "message")
    outcome = classify_error(message)
    if outcome in LIMIT_OUTCOMES:
        yield LimitSignal(outcome, retry_after_seconds=_parse_wait(message))
    yield Finished(False, outcome, message)


def classify_error(message: str) -> Outcome | None:
    """Classify the error of its last event, as the provider's object or as text."""
    found = _API_ERROR.fullmatch(message)
    said = found[1] if found else ""
    if said == _DAILY_QUOTA:
        return Outcome.QUOTA
    if said in _NETWORK_ERRORS:
        return Outcome.NETWORK
    return classify_status(get_count(get_object(parse_object(said) or {}, "error"), "code"))


def _parse_wait(message: str) -> float:
    found = _RETRY_AFTER.search(message)
    return parse_seconds(found[1]) if found else 0.0


def _parse_retry(text: str) -> Iterator[Event]:
    """Retries are reported on standard error only."""
    found = _ATTEMPT.match(text)
    if found and not text.rstrip().endswith(_LAST_ATTEMPT):
        status = int(found[1] or 0)
        unknown = Outcome.RATE_LIMITED if ": " in found[0] else Outcome.NETWORK
        yield Retrying(classify_status(status) or unknown, 0.0, status)


class GeminiAdapter(StreamAdapter):
    """Starts Gemini CLI and parses its stream."""

    PROGRAM = PROGRAM
    READ: ClassVar[Mapping[str, LineParser]] = {
        "init": _parse_init,
        "message": _parse_message,
        "tool_use": _parse_tool,
        "tool_result": ignore_line,
        "error": _parse_error,
        "result": _parse_result,
    }

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        argv = [*PROGRAM.argv(agent), "--output-format", "stream-json"]
        if agent.permissions == "all":
            argv += SKIP_PERMISSIONS
        if agent.model:
            argv += ["--model", agent.model]
        if session := PROGRAM.session_argument(work):
            argv += ["--resume", session]
        return Launch((*argv, *agent.extra_args), str(work.checkout), env, str(work.prompt_file))

    def aside(self, text: str) -> Iterator[Event]:
        return _parse_retry(text)

    def program_verdict(self, exit_code: int | None, tally: StreamTally, /) -> RunVerdict:
        """Use its exit code for failures that its last event does not name."""
        found, code = judge_stream_end(exit_code, tally), exit_code or 0
        ended = tally.finished
        if ended is not None and not ended.ok and found.outcome is Outcome.CRASH:
            outcome = classify_status(_STATUS_BY_EXIT_CODE.get(code, 0))
        elif ended is None:
            outcome = _OUTCOMES_BY_EXIT_CODE.get(code)
        else:
            outcome = None
        if outcome is None:
            return found
        why = quote_failure(ended.text, outcome) if ended else found.why
        limit = None
        if ended and outcome in LIMIT_OUTCOMES:
            # Only now is it known that the wait in its message is for a limit.
            limit = LimitSignal(outcome, _STATUS_BY_EXIT_CODE.get(code, 0), _parse_wait(ended.text))
        return replace(found, outcome=outcome, decided_by=DecidedBy.EXIT_CODE, why=why, limit=limit)
