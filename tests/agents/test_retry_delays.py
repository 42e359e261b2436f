"""How long to wait, as messages say it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.adapters.provider_errors import MAX_COUNT, parse_retry_delay, parse_seconds
from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import OutputLine, OutputStream

UNITS = {
    "ms": 0.001,
    "milliseconds": 0.001,
    "s": 1,
    "second": 1,
    "seconds": 1,
    "m": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3600,
    "hours": 3600,
    "d": 86_400,
    "day": 86_400,
    "days": 86_400,
}
counts = st.integers(0, 10_000) | st.decimals(0, 10_000, places=3)
parts = st.lists(st.tuples(counts, st.sampled_from(sorted(UNITS))), min_size=1, max_size=4)
blanks = st.sampled_from(["", " "])
ends = st.sampled_from(["", ".", ". Visit the page.", ")", " or later"])


@given(parts, blanks, st.sampled_from([" ", ", "]), ends, st.booleans())
def test_every_unit_and_fraction_is_read(said, blank, between, end, loud):
    time = between.join(f"{count}{blank}{unit}" for count, unit in said)
    words = f"Please try again in {time}{end}"
    expected = sum(float(count) * UNITS[unit] for count, unit in said)
    assert parse_retry_delay(words.upper() if loud else words) == pytest.approx(expected)


@given(counts, st.from_regex(r"[a-zA-Z]{1,12}", fullmatch=True), parts)
def test_a_unit_that_is_not_known_gives_nothing(count, unit, known):
    if unit.lower() in {*UNITS, "sec", "secs", "min", "mins", "hr", "hrs", "hour", "millisecond"}:
        return
    time = " ".join(f"{one} {name}" for one, name in known)
    assert parse_retry_delay(f"try again in {count} {unit}") == 0
    assert parse_retry_delay(f"try again in {time} {count} {unit}") == 0


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("859ms", 0.859),
        ("11.054s", 11.054),
        ("1m30s", 90),
        ("6m0s", 360),
        ("2 days 3 hours 5 minutes", 183_900),
        ("1 minute and 5 seconds", 65),
        ("5 months", 0),
        ("5", 0),
        ("a while", 0),
        (".5s", 0),
    ],
)
def test_words_as_providers_write_them(said, seconds):
    assert parse_retry_delay(f"Limit reached. Please try again in {said}.") == pytest.approx(
        seconds
    )


@given(st.text() | st.from_regex(r"try again in (\d+(\.\d+)? ?[a-z]{1,3} ?){1,3}"))
def test_any_text_is_a_bearable_wait(text):
    assert 0 <= parse_retry_delay(text) <= MAX_COUNT * 86_400 * max(len(text), 1)
    assert 0 <= parse_seconds(text) <= MAX_COUNT


def test_a_longer_count_is_never_a_shorter_wait():
    waits = [parse_retry_delay(f"try again in {'9' * digits}s") for digits in range(1, 400)]
    assert all(one <= more for one, more in pairwise(waits))


@given(st.integers(1, 10**6 - 1), st.integers(0, 10**9 - 1))
def test_gemini_is_told_to_wait_with_fractions(whole, fraction):
    """Google writes durations with up to nine of them."""
    told = {"error": {"code": 429, "message": "slow"}}
    for said in (f"{whole}.{fraction:09d}s", f"{whole}s"):
        message = f"[API Error: {json.dumps(told)}]\nSuggested retry after {said}."
        line = {"type": "result", "status": "error", "error": {"message": message}}
        _, limit, _ = KINDS["gemini"].events(OutputLine(OutputStream.STDOUT, json.dumps(line)))
        assert limit.retry_after_seconds == pytest.approx(float(said[:-1]))
