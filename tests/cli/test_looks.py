"""Texts on a terminal: they fit, and nothing in them is obeyed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.cli.output import format_labelled
from hostler.text import display_width, escape_control, escape_line, format_age, shorten


@given(st.text(), st.integers(1, 100))
def test_what_is_cut_fits_and_is_a_beginning(text, columns):
    shown = shorten(text, columns)
    assert display_width(shown) <= max(columns, 1)
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))
    assert shorten(text, None) == text


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text):
    for shown in (escape_control(text), escape_line(text)):
        assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c != "\t"]
        assert "\n" not in shown and "\x1b" not in shown


@given(st.floats(0, 1e9))
def test_an_age_is_short_and_true(seconds):
    shown = format_age(seconds)
    size = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[shown[-1]]
    assert len(shown) <= 4
    number = int(shown[:-1])
    assert number == 999 or number * size <= seconds < (number + 1) * size


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (7199, "119m"), (7200, "2h"), (200_000, "2d")],
)
def test_ages(seconds, shown):
    assert format_age(seconds) == shown


def test_labels_stand_in_a_column_of_their_own():
    assert format_labelled("why", "It  waits.\n") == ["  why         It waits."]
    assert format_labelled("note", "") == ["  note"]
