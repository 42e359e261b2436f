"""Texts as they go out: marked, clean, never too long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.forge.deeds import KINDS, Comment, Label, OpenPull, pack, unpack
from hostler.forge.markers import (
    LONGEST_BODY,
    LONGEST_TITLE,
    NOTE,
    check_token,
    marked,
    marker,
    titled,
    tokens_in,
)

texts = st.text(st.characters(codec=None), max_size=300) | st.sampled_from(
    ["", "```\ncode", "<!-- open", "~~~\n```\n", marker("other"), "<!--hostler:action=x-->"]
)
tokens = st.from_regex(r"[a-z][a-z0-9:.]{0,30}", fullmatch=True)


@given(texts, tokens)
def test_a_body_carries_its_own_token_and_no_other(text, token):
    body = marked(text, token)
    assert tokens_in(body) == [token]
    assert body.endswith(marker(token))
    body.encode("utf-8")


@settings(max_examples=15)
@given(texts, st.integers(LONGEST_BODY - 200, LONGEST_BODY + 50_000), st.booleans())
def test_no_body_is_too_long_and_the_marker_is_kept(text, length, lines):
    unit = (text or "x") + ("\n" if lines else "")
    body = marked(unit * (length // len(unit) + 1), "t1")
    assert len(body) <= LONGEST_BODY
    assert tokens_in(body) == ["t1"]


def test_a_text_that_fits_is_not_touched():
    room = LONGEST_BODY - len(marker("t1")) - 2
    assert marked("x" * room, "t1").startswith("x" * room + "\n\n")
    assert NOTE in marked("x" * (room + 1), "t1")


@pytest.mark.parametrize("fence", ["```", "~~~~", "   ```python"])
def test_a_cut_text_ends_outside_its_code_block(fence):
    body = marked(f"{fence}\n" + "code\n" * 20_000, "t1")
    before_note = body[: body.index(NOTE)].rstrip().splitlines()
    assert before_note[-1] == fence.strip().removesuffix("python")


def test_a_cut_text_ends_outside_a_hidden_comment():
    body = marked("<!-- " + "hidden\n" * 20_000, "t1")
    assert "-->" in body[: body.index(NOTE)]


@pytest.mark.parametrize("token", ["", "a b", "a--b", "a-", "-a", "a>", "ü", "x" * 121, "a\n"])
def test_what_could_break_out_of_a_marker_is_no_token(token):
    with pytest.raises(ValueError):
        check_token(token)


def test_a_title_is_one_line_and_not_too_long():
    assert titled(" a\nb\t c ") == "a b c"
    assert titled("\n") == "(no title)"
    assert len(titled("x" * 1000)) == LONGEST_TITLE


@pytest.mark.parametrize("kind", KINDS)
def test_every_deed_survives_being_stored(kind):
    fields = KINDS[kind].__dataclass_fields__
    values = {
        name: ("x",) if name == "labels" else 7 if "int" in str(field.type) else "text"
        for name, field in fields.items()
        if name not in ("kind", "scope_kind", "draft")
    }
    deed = KINDS[kind](**values)
    assert unpack(kind, pack(deed)) == deed


def test_stored_deeds_hold_no_strange_characters_and_no_long_titles():
    stored = unpack("open_pull", pack(OpenPull(1, "h", "b", "t\n" * 500, "a\0b\ud800c")))
    assert stored.body == "ab\ufffdc"
    assert len(stored.title) <= LONGEST_TITLE
    assert unpack("comment", pack(Comment(1, "ü"))) == Comment(1, "ü")
    assert unpack("label", pack(Label(1, ("a", "b")))).labels == ("a", "b")
