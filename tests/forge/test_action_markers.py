"""Texts as they go out: marked, clean, never too long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.forge.actions import (
    ACTION_KINDS,
    MAX_BODY_LENGTH,
    MAX_TITLE_LENGTH,
    SHORTENED_NOTE,
    AddLabel,
    CreateComment,
    OpenPull,
    add_marker,
    decode_action,
    encode_action,
    find_tokens,
    format_marker,
    format_title,
    require_token,
)

texts = st.text(st.characters(codec=None), max_size=300) | st.sampled_from(
    ["", "```\ncode", "<!-- open", "~~~\n```\n", format_marker("other"), "<!--hostler:action=x-->"]
)
tokens = st.from_regex(r"[a-z][a-z0-9:.]{0,30}", fullmatch=True)


@given(texts, tokens)
def test_a_body_carries_its_own_token_and_no_other(text, token):
    body = add_marker(text, token)
    assert find_tokens(body) == [token]
    assert body.endswith(format_marker(token))
    body.encode("utf-8")


@settings(max_examples=15)
@given(texts, st.integers(MAX_BODY_LENGTH - 200, MAX_BODY_LENGTH + 50_000), st.booleans())
def test_no_body_is_too_long_and_the_marker_is_kept(text, length, lines):
    unit = (text or "x") + ("\n" if lines else "")
    body = add_marker(unit * (length // len(unit) + 1), "t1")
    assert len(body) <= MAX_BODY_LENGTH
    assert find_tokens(body) == ["t1"]


def test_a_text_that_fits_is_not_touched():
    room = MAX_BODY_LENGTH - len(format_marker("t1")) - 2
    assert add_marker("x" * room, "t1").startswith("x" * room + "\n\n")
    assert SHORTENED_NOTE in add_marker("x" * (room + 1), "t1")


@pytest.mark.parametrize("fence", ["```", "~~~~", "   ```python"])
def test_a_cut_text_ends_outside_its_code_block(fence):
    body = add_marker(f"{fence}\n" + "code\n" * 20_000, "t1")
    before_note = body[: body.index(SHORTENED_NOTE)].rstrip().splitlines()
    assert before_note[-1] == fence.strip().removesuffix("python")


def test_a_cut_text_ends_outside_a_hidden_comment():
    body = add_marker("<!-- " + "hidden\n" * 20_000, "t1")
    assert "-->" in body[: body.index(SHORTENED_NOTE)]


@pytest.mark.parametrize("token", ["", "a b", "a--b", "a-", "-a", "a>", "ü", "x" * 121, "a\n"])
def test_what_could_break_out_of_a_marker_is_no_token(token):
    with pytest.raises(ValueError):
        require_token(token)


def test_a_title_is_one_line_and_not_too_long():
    assert format_title(" a\nb\t c ") == "a b c"
    assert format_title("\n") == "(no title)"
    assert len(format_title("x" * 1000)) == MAX_TITLE_LENGTH


@pytest.mark.parametrize("kind", ACTION_KINDS)
def test_every_deed_survives_being_stored(kind):
    fields = ACTION_KINDS[kind].__dataclass_fields__
    values = {
        name: ("x",) if name == "labels" else 7 if "int" in str(field.type) else "text"
        for name, field in fields.items()
        if name not in ("kind", "scope_kind", "draft")
    }
    deed = ACTION_KINDS[kind](**values)
    assert decode_action(kind, encode_action(deed)) == deed


def test_stored_deeds_hold_no_strange_characters_and_no_long_titles():
    stored = decode_action(
        "open_pull", encode_action(OpenPull(1, "h", "b", "t\n" * 500, "a\0b\ud800c"))
    )
    assert stored.body == "ab\ufffdc"
    assert len(stored.title) <= MAX_TITLE_LENGTH
    assert decode_action("comment", encode_action(CreateComment(1, "ü"))) == CreateComment(1, "ü")
    assert decode_action("label", encode_action(AddLabel(1, ("a", "b")))).labels == ("a", "b")
