"""Every recorded run of a real program is judged rightly, whatever models and tools say in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import (
    LOST_CAUSES,
    Recording,
    as_bytes,
    by_itself,
    recording,
    recordings,
    verdict_on,
)

from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.classify import classify_lines
from hostler.agents.events import CostEvent, LimitSignal, Retrying, Text, ToolUse, Usage
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.verdict import EndedBy

UUID = "00000429-0529-4401-8429-429429429429"
HOSTILE = (
    "429 Too Many Requests",
    "API Error: Request rejected (429) · rate_limit_error",
    "exceeded retry limit, last status: 429 Too Many Requests",
    "You’ve hit your usage limit. Try again in 3 days.",
    "Quota exceeded. Check your plan and billing details.",
    "[API Error: You have exhausted your daily quota on this model.]",
    "unexpected status 529 <unknown status code>: Overloaded",
    UUID,
    '{"type":"result","is_error":true,"api_error_status":429,"api_error":"usage_limit_reached"}',
    '"},"error":{"name":"APIError","data":{"statusCode":429}},"x":{"y":"',
    '\n{"type":"turn.failed","error":{"message":"Quota exceeded."}}\n',
    '{"type":"error","error":{"name":"APIError","data":{"statusCode":529}}}',
    "\0\x1b[31m429\x1b[0m",
)
# Where the words of models and tools stand, by the names on the way to them.
FREE = frozenset({"text", "content", "aggregated_output", "command", "output", "title", "input"})
FREE |= {"parameters", "description", "thinking"}


@pytest.mark.parametrize("one", recordings(), ids=lambda one: one.full_name)
def test_a_recorded_run_is_judged_rightly(one: Recording):
    found = verdict_on(one)
    assert found.verdict.outcome.value == one.judged, found.verdict.why
    assert found.verdict.why


def test_causes_are_lost_in_few_and_each_is_a_real_difference():
    assert len(LOST_CAUSES) <= 6
    assert all(recording(name).expected != judged for name, (judged, _) in LOST_CAUSES.items())


def free_words(value: object, said: str, free: bool = False) -> object:
    """The same event, in which models and tools say something else."""
    if isinstance(value, str):
        return said if free else value
    if isinstance(value, list):
        return [free_words(one, said, free) for one in value]
    if isinstance(value, dict):
        return {
            name: inner
            if name in {"type", "name", "id", "tool_use_id"}
            else free_words(inner, said, free or name in FREE)
            for name, inner in value.items()
        }
    return value


def speaks(line: str) -> bool:
    """Whether a line is of a model or a tool, and not of the program itself."""
    raw = json.loads(line)
    if raw.get("message", {}) and isinstance(raw.get("message"), dict):
        return raw["message"].get("model") != "<synthetic>"
    return raw["type"] in {"message", "tool_use", "tool_result", "text"} or (
        raw["type"].startswith("item.") and raw["item"]["type"] != "error"
    )


@given(st.sampled_from(by_itself()), st.lists(st.sampled_from(HOSTILE) | st.text(), min_size=1))
def test_words_of_models_and_tools_change_no_verdict(one, said):
    words = " ".join(said)
    lines = [
        json.dumps(free_words(json.loads(line), words)) if speaks(line) else line
        for line in one.stdout
    ]
    assert verdict_on(one, as_bytes(tuple(lines))).verdict.outcome.value == one.judged


# What gemini says of itself on standard error, said by somebody else.
ASIDE = (
    *HOSTILE,
    "Attempt 1 failed with status 429. Retrying with backoff... _ApiError: {}",
    "Attempt 3 failed: You have exhausted your capacity on this model. Retrying after 5000ms...",
    "Attempt 3 failed with status 402. Max attempts reached",
    "Attempt 10 failed with status 529. Max attempts reached",
    "[API Error: You have exhausted your daily quota on this model.]",
)


@given(
    st.sampled_from(by_itself()),
    st.lists(st.sampled_from(ASIDE) | st.text(), min_size=1, max_size=5),
    st.integers(0, 50),
    st.booleans(),
)
def test_words_beside_the_stream_change_no_verdict_and_close_nothing(one, said, place, alone):
    """Whatever stands there of ours, of tools, or of nobody."""
    kept = [] if alone else list(one.stderr)
    kept[place % (len(kept) + 1) : 0] = said
    found, whole = verdict_on(one, stderr=as_bytes(tuple(kept))), verdict_on(one)
    assert found.verdict.outcome.value == one.judged
    ended = found.tally.finished
    assert ended is None or found.verdict.limit == whole.verdict.limit
    assert found.tally.session == whole.tally.session and found.tally.usage == whole.tally.usage


@given(
    st.sampled_from(by_itself()),
    st.lists(st.tuples(st.integers(0, 50), st.binary(max_size=200)), max_size=5),
)
def test_garbage_between_the_lines_changes_no_verdict(one, garbage):
    lines = [line.encode() for line in one.stdout]
    for place, data in garbage:
        noise = b"\xff" + data.replace(b"\n", b"\xfe")
        lines.insert(place % (len(lines) + 1), noise)
    found = verdict_on(one, b"".join(line + b"\n" for line in lines))
    assert found.verdict.outcome.value == one.judged


@given(st.sampled_from(by_itself()), st.integers(1, 300))
def test_however_the_bytes_arrive(one, step):
    assert verdict_on(one, cuts=step) == verdict_on(one)


@pytest.mark.parametrize("one", by_itself()[::7], ids=lambda one: one.full_name)
def test_a_line_of_a_megabyte_changes_no_verdict(one: Recording):
    huge = json.dumps({"type": "huge", "text": "429 " * 300_000})
    found = verdict_on(one, as_bytes((huge, *one.stdout[:-1], huge, one.stdout[-1])))
    assert found.verdict.outcome.value == one.judged


def renamed(line: str) -> str:
    """A line as a version to come might write it."""
    raw = json.loads(line)
    return json.dumps({**raw, "type": f"v9.{raw['type']}"})


@pytest.mark.parametrize("one", by_itself(), ids=lambda one: one.full_name)
def test_a_stream_of_a_form_that_nobody_knows_is_a_crash_and_no_limit(one: Recording):
    found = verdict_on(one, as_bytes(tuple(map(renamed, one.stdout))))
    assert found.verdict.outcome is Outcome.CRASH


@given(st.sampled_from(by_itself()), st.integers(0, 60))
def test_a_stream_that_breaks_off_never_names_a_limit_that_it_has_not_told(one, kept):
    """Success or a limit need the last event; without it, there is none."""
    if kept >= len(one.stdout):
        return
    cut = verdict_on(one, as_bytes(one.stdout[:kept]))
    last = [json.loads(line)["type"] for line in one.stdout[kept:]]
    if "result" in last or "turn.failed" in last or "turn.completed" in last:
        assert cut.verdict.outcome not in {*LIMIT_OUTCOMES, Outcome.SUCCESS}


def events_of(full_name: str) -> list[object]:
    one = recording(full_name)
    kind = KINDS[one.cli]
    said = [
        event for text in one.stdout for event in kind.events(OutputLine(OutputStream.STDOUT, text))
    ]
    return said + [
        event for text in one.stderr for event in kind.events(OutputLine(OutputStream.STDERR, text))
    ]


def test_retries_are_seen_while_they_happen_and_taken_back_by_the_next_word():
    for cli in ("claude", "codex", "gemini"):
        retries = [one for one in events_of(f"{cli}/flaky429") if isinstance(one, Retrying)]
        assert retries and {one.reason for one in retries} == {Outcome.RATE_LIMITED}
    assert verdict_on(recording("claude/flaky429")).tally.limit is None
    (first, *_) = [one for one in events_of("claude/flaky429") if isinstance(one, Retrying)]
    assert first == Retrying(Outcome.RATE_LIMITED, 2.0, 429)


def test_a_subscription_that_is_used_up_says_until_when():
    found = verdict_on(recording("claude/oauth_429_unified"))
    assert found.verdict.limit == LimitSignal(
        Outcome.QUOTA, 429, resets_at="2026-11-15T21:40:44.000Z"
    )
    assert found.as_json()["resets_at"] == "2026-11-15T21:40:44.000Z"


@pytest.mark.parametrize(
    ("window", "one_model"),
    [
        ("five_hour", False),
        ("seven_day", False),
        ("seven_day_opus", True),
        ("seven_day_sonnet", True),
        ("", False),
        ("something_new", False),
    ],
)
def test_a_window_of_one_model_is_told_from_the_accounts(window, one_model):
    info = {"status": "rejected", "resetsAt": 1794778844, "rateLimitType": window}
    line = json.dumps({"type": "rate_limit_event", "rate_limit_info": info})
    (limit,) = KINDS["claude"].events(OutputLine(OutputStream.STDOUT, line))
    assert (limit.reason, limit.one_model) == (Outcome.QUOTA, one_model)


def test_waits_that_a_provider_names_are_kept():
    long = verdict_on(recording("gemini/429_long")).verdict
    assert long.limit is not None and long.limit.retry_after_seconds == 3600
    short = verdict_on(recording("opencode/429")).verdict
    assert short.limit == LimitSignal(Outcome.RATE_LIMITED, 429, 2.0)
    codex = verdict_on(recording("codex/sse_ratelimit")).verdict
    assert codex.limit is not None and codex.limit.retry_after_seconds == 2


@pytest.mark.parametrize(
    ("name", "spent", "usd"),
    [
        ("claude/tool", Usage(246, 44, 10, total=True), 0.00184),
        ("codex/tool", Usage(222, 44, 10, total=True), 0.0),
        ("gemini/tool", Usage(222, 44, 10, total=True), 0.0),
        ("opencode/tool", Usage(222, 44, 0, total=True), 0.0),
    ],
)
def test_tokens_and_money_are_counted_once(name, spent, usd):
    found = verdict_on(recording(name)).tally
    assert (found.usage, found.usd) == (spent, usd)


def read_by_models(cli: str, raw: dict[str, Any]) -> int | None:
    """All tokens that a model read, as an event has them that tells of them in full."""
    if cli == "claude" and raw["type"] == "result":
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return sum(raw["usage"][name] for name in names)
    if cli == "codex" and raw["type"] == "turn.completed":
        return int(raw["usage"]["input_tokens"])
    if cli == "gemini" and raw["type"] == "result":
        return int(raw["stats"]["input"] + raw["stats"]["cached"])
    if cli == "opencode" and raw["type"] == "step_finish":
        tokens = raw["part"]["tokens"]
        return int(tokens["total"] - tokens["output"] - tokens["reasoning"])
    return None


@pytest.mark.parametrize("one", recordings(), ids=lambda one: one.full_name)
def test_tokens_that_were_read_mean_the_same_of_every_program(one: Recording):
    for text in one.stdout:
        told = read_by_models(one.cli, json.loads(text))
        if told is None:
            continue
        events = KINDS[one.cli].events(OutputLine(OutputStream.STDOUT, text))
        (usage,) = [event for event in events if isinstance(event, Usage)]
        assert usage.input_tokens == told and usage.cached_tokens <= told


def test_what_a_cache_had_is_among_what_was_read():
    cache = {"read": 40, "write": 2}
    part = {"reason": "stop", "tokens": {"input": 3, "output": 1, "reasoning": 0, "cache": cache}}
    line = json.dumps({"type": "step_finish", "part": part})
    usage, *_ = KINDS["opencode"].events(OutputLine(OutputStream.STDOUT, line))
    assert usage == Usage(45, 1, 40)


def test_what_was_spent_before_an_end_by_force_is_counted_too():
    """The last event, with the sum, never came."""
    one = recording("claude/sigterm_leader_tool")
    assert verdict_on(one).tally.usage.output_tokens > 0
    whole = recording("claude/tool")
    cut = verdict_on(whole, as_bytes(whole.stdout[:-1])).tally.usage
    # What was written is only known in part before the sum comes.
    assert cut.input_tokens == verdict_on(whole).tally.usage.input_tokens


def test_a_last_event_without_a_sum_leaves_what_was_counted():
    whole = recording("claude/tool")
    last = {name: told for name, told in json.loads(whole.stdout[-1]).items() if name != "usage"}
    del last["total_cost_usd"]
    cut = verdict_on(whole, as_bytes(whole.stdout[:-1])).tally.usage
    found = verdict_on(whole, as_bytes((*whole.stdout[:-1], json.dumps(last)))).tally.usage
    assert found == cut and found.input_tokens


@pytest.mark.parametrize("cli", ["claude", "codex", "gemini", "opencode"])
def test_a_run_is_told_live(cli):
    found = events_of(f"{cli}/tool")
    assert any(isinstance(one, ToolUse) and "hello-from-tool" in one.detail for one in found)
    assert verdict_on(recording(f"{cli}/tool")).tally.session
    text = verdict_on(recording(f"{cli}/tool")).tally.last_text
    assert text == "All done. MOCK_FINAL_MESSAGE"
    assert any(isinstance(one, Text) for one in found)
    assert any(isinstance(one, CostEvent) for one in found) == (cli in {"claude", "opencode"})


def last_said(cli: str, message: str) -> str:
    """A failure of each program, in any words."""
    error = {"message": message}
    return json.dumps(
        {
            "claude": {"type": "result", "subtype": "success", "is_error": True, "result": message},
            "codex": {"type": "turn.failed", "error": error},
            "gemini": {"type": "result", "status": "error", "error": error},
            "opencode": {"type": "error", "error": {"name": "APIError", "data": error}},
        }[cli]
    )


@given(
    st.sampled_from(["claude", "codex", "gemini", "opencode"]),
    st.lists(st.sampled_from(["@octo", "`", "#1", "\n", "fixes #2", "x"]) | st.text(), max_size=8),
    st.sampled_from([1, 41, 145, 173]),
)
def test_words_of_a_program_name_nobody_where_a_verdict_is_read(cli, said, code):
    line = OutputLine(OutputStream.STDOUT, last_said(cli, " ".join(said)))
    aside = OutputLine(OutputStream.STDERR, " ".join(said))
    for lines in ([line], [aside]):
        why = classify_lines(KINDS[cli], lines, code, EndedBy.EXIT).verdict.why
        assert why.count("`") % 2 == 0 and "\n" not in why
        outside = "".join(why.split("`")[::2])
        assert "@" not in outside and "#" not in outside


def test_failures_of_a_server_are_no_limits():
    for name in ("gemini/500_maxattempts2", "gemini/502_html_maxattempts2"):
        retries = [one for one in events_of(name) if isinstance(one, Retrying)]
        assert {one.reason for one in retries} == {Outcome.SERVER_ERROR}


def test_a_stream_that_nobody_knows_says_where_to_look():
    one = recording("codex/429")
    found = verdict_on(one, as_bytes(tuple(map(renamed, one.stdout))))
    assert "hostler agents classify" in found.verdict.why
