"""Lines: any text comes through, none can break out, and any bytes are a message or none."""

from __future__ import annotations

import json

import pytest
from bus_fixture import ADA, AGENT, FACT, INFO, SERVICE, line
from bus_strategies import texts
from hypothesis import example, given
from hypothesis import strategies as st

from hostler.bus.errors import InvalidMessage
from hostler.bus.message import (
    MAX_BODY_SIZE,
    MAX_LINE_SIZE,
    MessageDraft,
    MessageType,
    may_post,
    parse_line,
    read_line_id,
    replace_lone_surrogates,
)
from hostler.bus.writer import build_filler_line

ID, LATER = "20260301-120000-123456", "20260301-120000-123457"
AT = "2026-03-01T12:00:00.123Z"
GOOD = json.loads(line(ID))


@given(texts, st.sampled_from([AGENT, ADA, SERVICE]), st.sampled_from(["", ID]), st.integers(1, 9))
def test_any_text_comes_through_as_one_line(text, sender, thread, attempts):
    draft = MessageDraft(FACT, text, sender, thread)
    made = draft.line(LATER, AT, attempts)
    assert made.isascii() and made.endswith(b"\n")
    assert len(made.decode().splitlines()) == 1
    found = parse_line(made[:-1])
    assert found == draft.message(LATER, AT, attempts)
    assert found.body == replace_lone_surrogates(text)
    assert found.stored() == json.loads(made)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_whole_characters_stay_as_they_are(text):
    assert replace_lone_surrogates(text) == text


@given(st.text(st.characters(categories=["Cs", "L"])))
def test_halves_of_characters_become_whole_ones(text):
    whole = replace_lone_surrogates(text)
    whole.encode()
    assert replace_lone_surrogates(whole) == whole


def test_pairs_of_halves_are_joined_and_single_ones_replaced():
    assert replace_lone_surrogates("\ud83d\ude00 \ud83d") == "😀 \ufffd"


@pytest.mark.parametrize("char", ["x", "\x00", "ä", "\u2028", "😀", "\x7f"])
def test_the_limit_is_in_bytes_and_no_line_is_longer_than_readers_take(char):
    most = MAX_BODY_SIZE // len(char.encode())
    made = MessageDraft(FACT, char * most, AGENT, ID).line(LATER, AT, 100)
    assert len(made) <= MAX_LINE_SIZE
    assert parse_line(made) is not None
    with pytest.raises(InvalidMessage, match="65,536"):
        MessageDraft(FACT, char * (most + 1), AGENT)


@pytest.mark.parametrize("sender", [AGENT, ADA, SERVICE], ids=str)
@pytest.mark.parametrize("type_", MessageType)
def test_what_a_sender_may_not_say_is_neither_written_nor_read(sender, type_):
    claimed = {**GOOD, "type": type_, "sender": sender.stored()}
    if may_post(sender.kind, type_):
        draft = MessageDraft(type_, "x", sender)
        assert draft.message(ID, GOOD["at"]) == parse_line(json.dumps(claimed).encode())
    else:
        with pytest.raises(InvalidMessage, match=f"cannot post {type_}") as caught:
            MessageDraft(type_, "x", sender)
        assert "FACT" in caught.value.remedy
        assert parse_line(json.dumps(claimed).encode()) is None


@pytest.mark.parametrize(
    "change",
    [{key: value} for key in GOOD for value in (None, 1, [], {}, True)]
    + [
        {"id": "1"},
        {"at": "yesterday"},
        {"at": "2026-03-01\x1b12:00:00.000+00:00"},
        {"type": "run"},
    ]
    + [{"at": "2026-99-01T12:00:00.000Z"}, {"thread": "none"}, {"thread": 5}, {"attempts": 0}]
    + [{"attempts": True}, {"attempts": "1"}, {"body": "x" * (MAX_BODY_SIZE + 1)}]
    + [{"sender": {"kind": "agent"}}, {"sender": {"kind": "god"}}, {"sender": {"name": "ada"}}]
    + [{"sender": {"kind": "person", "name": "\x1b[2J"}}, {"sender": {"kind": "agent", "run": 1}}]
    + [{"sender": {"kind": "person", "name": ""}}, {"sender": {"kind": "agent", "run": "../r"}}],
    ids=lambda change: str(change)[:60],
)
def test_one_wrong_value_makes_it_no_message(change):
    assert parse_line(json.dumps(GOOD).encode()) is not None
    assert parse_line(json.dumps({**GOOD, **change}).encode()) is None


@pytest.mark.parametrize("key", GOOD)
def test_one_missing_value_makes_it_no_message(key):
    assert parse_line(json.dumps({k: v for k, v in GOOD.items() if k != key}).encode()) is None


def test_keys_of_a_newer_program_are_ignored():
    newer = {**GOOD, "mood": {"x": [1]}, "sender": {**GOOD["sender"], "host": "h"}}
    assert parse_line(json.dumps(newer).encode()) == parse_line(line(ID))


def test_a_half_character_that_somebody_wrote_into_the_file_is_made_whole():
    found = parse_line(json.dumps({**GOOD, "body": "a\ud800"}).encode())
    assert found is not None and found.body == "a\ufffd"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
almost = st.dictionaries(st.sampled_from([*GOOD, "thread", "attempts"]), json_values).map(
    lambda change: json.dumps({**GOOD, **change}).encode()
)


@given(st.binary() | almost)
@example(b"[" * 100_000)
@example(b"1" * 5_000)
@example(b"\xff\xfe{\x00}\x00")
def test_any_bytes_are_a_message_or_none(data):
    found = parse_line(data)
    if found is not None:
        assert may_post(found.sender.kind, found.type)
        found.body.encode()
        assert parse_line(json.dumps(found.stored()).encode()) == found


@given(texts, st.integers(min_value=0))
def test_a_part_of_a_line_is_no_message(text, cut):
    whole = line(ID, text)[:-1]
    assert parse_line(whole[: cut % len(whole)]) is None


@given(texts, st.integers(min_value=1), st.integers(min_value=0))
def test_no_mixture_of_a_torn_line_and_its_cover_is_a_message(text, cut, seam):
    """A reader may see the bytes while they are being overwritten."""
    whole = line(ID, text)[:-1]
    torn = whole[: cut % len(whole) or 1]
    over = build_filler_line(torn)
    seam %= len(torn) + 1
    for mixture in (torn[:seam] + over[seam:], over[:seam] + torn[seam:], over):
        for part in mixture.split(b"\n"):
            assert parse_line(part) is None
    assert json.loads(over) == {}
    assert over.count(b"\n") == 1 and over.endswith(b"\n")
    assert len(over) > len(torn)


@given(texts)
def test_the_id_is_seen_without_reading_the_rest(text):
    made = line(ID, text)
    assert read_line_id(made) == read_line_id(made[:30]) == ID
    assert (
        read_line_id(made[:20])
        == read_line_id(b"{}")
        == read_line_id(None)
        == read_line_id(b'{"id":"20269901')
        == ""
    )
    assert read_line_id(text.encode("utf-8", "surrogatepass")) == ""


@given(st.binary())
def test_looking_for_an_id_never_fails(data):
    assert read_line_id(data) == ""
    assert read_line_id(b'{"id":"' + data) == ""


def test_an_info_is_what_it_was():
    assert parse_line(line(ID, "hello")) == MessageDraft(INFO, "hello", AGENT).message(
        ID, GOOD["at"]
    )
