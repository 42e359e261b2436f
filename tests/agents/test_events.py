"""Events, our own lines of them, and what a stream adds up to."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.adapters.command import CommandAdapter
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.events import (
    EVENT_TYPES,
    MAX_MESSAGE_NAME,
    MAX_NUMBER,
    MAX_PARTS,
    CostEvent,
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
    decode_event,
    encode_event,
    tally_events,
)
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.scripted.adapter import ScriptedAdapter

counts = st.integers(0, MAX_NUMBER)
amounts = st.floats(0, 1e9)
events = st.one_of(
    st.builds(Started, st.text(), st.text(), st.text()),
    st.builds(SessionEvent, st.text()),
    st.builds(Text, st.text(), st.booleans()),
    st.builds(RequestFailed, st.sampled_from(Outcome), counts),
    st.builds(ToolUse, st.text(), st.text()),
    st.builds(Retrying, st.sampled_from(Outcome), amounts, counts),
    st.builds(Usage, counts, counts, counts, st.booleans()),
    st.builds(CostEvent, amounts, st.booleans()),
    st.builds(LimitSignal, st.sampled_from(sorted(LIMIT_OUTCOMES)), counts, amounts, st.text()),
    st.builds(Finished, st.booleans(), st.none() | st.sampled_from(Outcome), st.text()),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
names = sorted({field.name for kind in EVENT_TYPES.values() for field in fields(kind)})


@given(events)
def test_an_event_survives_the_wire(event):
    line = encode_event(event)
    assert "\n" not in line
    assert decode_event(line) == event


@given(st.text())
def test_any_text_gives_an_event_and_no_error(text):
    assert decode_event(text) is not None


@given(st.sampled_from(sorted(EVENT_TYPES)), st.dictionaries(st.sampled_from(names), json_values))
def test_any_object_with_our_names_is_an_event_or_noise(kind, values):
    event = decode_event(json.dumps({**values, "type": kind}))
    assert isinstance(event, Noise) or decode_event(encode_event(event)) == event


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"type": 7}',
        '{"type": "nonsense"}',
        '{"type": "text"}',
        '{"type": "text", "text": 5}',
        '{"type": "cost", "usd": NaN}',
        '{"type": "cost", "usd": -1}',
        '{"type": "cost", "usd": true}',
        '{"type": "usage", "input_tokens": 1.5}',
        '{"type": "usage", "input_tokens": 1e300}',
        '{"type": "limit", "reason": "crash"}',
        '{"type": "limit", "reason": ["quota"]}',
        '{"type": "result", "ok": 1}',
        "[" * 100_000,
        '{"type": "cost", "usd": ' + "9" * 10_000 + "}",
    ],
    ids=lambda line: line[:40],
)
def test_what_does_not_fit_exactly_is_noise(line):
    assert decode_event(line) == Noise(line)


def test_a_tool_that_quotes_a_limit_is_no_limit():
    quoted = json.dumps({"type": "text", "text": '{"type": "limit", "reason": "quota"}'})
    (event,) = ScriptedAdapter().events(OutputLine(OutputStream.STDOUT, quoted))
    assert isinstance(event, Text)
    (noise,) = ScriptedAdapter().events(
        OutputLine(OutputStream.STDERR, '{"type": "limit", "reason": "quota"}')
    )
    assert isinstance(noise, Noise)


def test_a_command_speaks_free_text():
    assert CommandAdapter().events(OutputLine(OutputStream.STDOUT, "429")) == [Text("429")]
    assert CommandAdapter().events(OutputLine(OutputStream.STDERR, "warning")) == [
        Noise("warning", aside=True)
    ]


def test_a_retry_is_a_state_that_output_takes_back():
    waiting = tally_events([Retrying(Outcome.OVERLOADED, 3.0, 529)])
    assert waiting.limit == LimitSignal(Outcome.OVERLOADED, 529, 3.0)
    assert waiting.after(ToolUse("edit")).limit is None
    assert waiting.after(Usage(5)).limit == waiting.limit
    assert tally_events([Retrying(Outcome.NETWORK)]).limit is None


@given(st.lists(events), st.integers(min_value=0))
def test_a_tally_can_be_taken_up_anywhere(stream, cut):
    cut %= len(stream) + 1
    assert tally_events(stream[cut:], tally_events(stream[:cut])) == tally_events(stream)


def test_usage_and_cost_add_up_unless_they_are_totals():
    state = tally_events([Usage(1, 2, 3), Usage(10, 20, 30), CostEvent(0.5), CostEvent(0.25)])
    assert state.usage == Usage(11, 22, 33, total=True)
    assert state.usd == 0.75
    assert tally_events([Usage(5, total=True), CostEvent(2.0, total=True)], state) == StreamTally(
        usage=Usage(5, total=True), usd=2.0, said=True, answered=True
    )


def test_what_is_said_again_of_the_same_message_replaces_what_was_said_before():
    first, again, other = Usage(10, 1, of="a"), Usage(10, 7, of="a"), Usage(5, 2, of="b")
    assert tally_events([first, again, other]).usage == Usage(15, 9, total=True)
    assert tally_events([first, other, Usage(99, 9, total=True)]).usage == Usage(99, 9, total=True)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)), max_size=40))
def test_messages_that_grow_in_turns_are_each_counted_once(said):
    last = dict(said)
    state = tally_events(Usage(count, count, of=name) for name, count in said)
    assert state.usage.input_tokens == state.usage.output_tokens == sum(last.values())


def test_messages_of_any_name_and_number_are_kept_within_bounds():
    state = tally_events(Usage(1, of=f"{n} " + "x" * 5000) for n in range(1000))
    assert state.usage.input_tokens == 1000
    assert len(state.parts) == MAX_PARTS and len(state.parts[0].of) == MAX_MESSAGE_NAME


def test_a_sum_that_says_nothing_takes_nothing_back():
    spent = [Usage(10, 2, of="a"), CostEvent(0.5)]
    state = tally_events([*spent, Usage(total=True), CostEvent(0.0, total=True)])
    assert (state.usage, state.usd) == (Usage(10, 2, total=True), 0.5)


def test_pieces_of_a_text_are_one_text_until_a_tool_is_used():
    said = tally_events([Text("All ", delta=True), Text("done.", delta=True)])
    assert said.last_text == "All done."
    assert said.after(ToolUse("edit")).after(Text("No.", delta=True)).last_text == "No."


def test_a_failed_request_stands_until_the_next_word_of_the_model():
    failed = tally_events([RequestFailed(Outcome.AUTH, 401)])
    assert failed.fault == RequestFailed(Outcome.AUTH, 401)
    assert failed.after(Text("on")).fault is None


def test_what_is_said_beside_a_stream_is_no_stream():
    state = tally_events(
        [Noise("  ", aside=True), Noise("first", aside=True), Noise("2", aside=True)]
    )
    assert (state.said, state.aside) == (False, "first")
    assert tally_events([Noise("garbage")]).said


def test_a_last_word_is_the_last_only_if_nothing_follows():
    over = tally_events([Finished(True)])
    assert over.after(ToolUse("edit")).finished is None
    assert over.after(Text("And now")).finished is None
    assert over.after(Usage(1)).finished == Finished(True)


def test_a_retry_that_is_read_after_the_last_word_changes_no_limit():
    wall = LimitSignal(Outcome.QUOTA, 429, 3600.0)
    state = tally_events(
        [wall, Finished(False, Outcome.QUOTA), Retrying(Outcome.RATE_LIMITED, 1.0, 429)]
    )
    assert state.limit == wall


def test_a_session_without_a_name_is_no_other_session():
    assert tally_events([SessionEvent("s"), SessionEvent("")]).session == "s"


WALL = LimitSignal(Outcome.QUOTA, 429, resets_at="2026-11-15T21:40:44.000Z")
BILL = LimitSignal(Outcome.QUOTA, person=True)
weak = st.sampled_from(
    [
        Retrying(Outcome.RATE_LIMITED, 1.0, 429),
        Retrying(Outcome.OVERLOADED, 1.0, 529),
        LimitSignal(Outcome.RATE_LIMITED, 429, 1.0),
        LimitSignal(Outcome.QUOTA, 429),
    ]
)


@given(st.sampled_from([WALL, BILL]), st.lists(weak))
def test_a_wall_stands_against_weaker_words_until_a_model_is_heard(wall, words):
    assert tally_events([wall, *words]).limit == wall
    assert tally_events([*words, wall]).limit == wall
    assert tally_events([wall, *words, Text("through")]).limit is None


def test_a_newer_wall_takes_the_place_of_an_older_one():
    later = LimitSignal(Outcome.QUOTA, 429, resets_at="2026-11-16T00:00:00.000Z")
    assert tally_events([WALL, later]).limit == later
    assert tally_events([WALL, BILL, later]).limit == BILL
