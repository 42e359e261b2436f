"""Times that programs name by the clock: whatever they print is read back, and nothing else is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.adapters.provider_errors import (
    find_clock_time,
    parse_clock_time,
    resolve_clock_time,
)
from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import Outcome
from hostler.model import format_timestamp

ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")]
ZONES += [ZoneInfo("Australia/Lord_Howe")]  # its summer is half an hour
BERLIN = ZONES[1]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
NOW = datetime(2026, 9, 25, 12, 0, tzinfo=UTC)
moments = st.datetimes(
    datetime(2020, 1, 1),
    datetime(2035, 1, 1),
    timezones=st.just(UTC),
)


def suffix(day):
    if 11 <= day <= 13:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def printed(moment, now, zone):
    """As codex writes it: with its day only if that is another one than today."""
    local = moment.astimezone(zone)
    half = "PM" if local.hour >= 12 else "AM"
    time = f"{local.hour % 12 or 12}:{local.minute:02} {half}"
    if local.date() == now.astimezone(zone).date():
        return time
    return f"{MONTHS[local.month - 1]} {local.day}{suffix(local.day)}, {local.year} {time}"


def comes_twice(moment, zone):
    local = moment.astimezone(zone)
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


@given(moments, st.timedeltas(timedelta(0), timedelta(days=10)), st.sampled_from(ZONES))
def test_what_codex_prints_is_read_back_to_the_minute_and_never_too_early(now, wait, zone):
    moment = now + wait
    found = parse_clock_time(printed(moment, now, zone), now, zone)
    assert found is not None
    if not comes_twice(moment, zone):
        assert timedelta(0) < found - moment <= timedelta(minutes=1)
    # Of an hour that comes twice, nobody can tell which was meant.
    assert printed(found - timedelta(minutes=1), now, zone) == printed(moment, now, zone)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("3:05 PM", "2026-09-25T13:06"),
        ("12:00 AM", "2026-09-24T22:01"),
        ("12:30 PM", "2026-09-25T10:31"),
        ("Sep 26th, 2026 3:05 PM", "2026-09-26T13:06"),
        ("sep 26th, 2026 3:05 pm", "2026-09-26T13:06"),
        ("Oct 1st, 2026 12:05 AM", "2026-09-30T22:06"),
        ("Nov 2nd, 2026 1:00 AM", "2026-11-02T00:01"),
        ("Dec 23rd, 2026 11:59 PM", "2026-12-23T23:00"),
    ],
)
def test_times_of_day_in_summer_and_winter(said, expected):
    assert f"{parse_clock_time(said, NOW, BERLIN):%Y-%m-%dT%H:%M}" == expected


def test_a_time_that_is_just_past_is_of_today_and_not_of_tomorrow():
    now = NOW + timedelta(hours=1, minutes=7)
    assert parse_clock_time("3:05 PM", now, BERLIN) == NOW + timedelta(hours=1, minutes=6)


def test_an_hour_that_does_not_exist_is_near_the_one_that_is_skipped():
    found = parse_clock_time("Mar 29th, 2026 2:30 AM", NOW, BERLIN)
    assert abs(found - datetime(2026, 3, 29, 1, 0, tzinfo=UTC)) <= timedelta(hours=1)


def test_of_an_hour_that_comes_twice_the_first_that_is_to_come():
    first = datetime(2026, 10, 25, 0, 31, tzinfo=UTC)
    said = "Oct 25th, 2026 2:30 AM"
    assert parse_clock_time(said, first - timedelta(minutes=20), BERLIN) == first
    assert parse_clock_time(said, first + timedelta(minutes=20), BERLIN) == first + timedelta(
        hours=1
    )


@pytest.mark.parametrize(
    "said",
    [
        *("", "later", "13:05 PM", "0:05 AM", "3:60 PM", "3:05", "Feb 30th, 2026 3:05 PM"),
        *("Foo 3rd, 2026 3:05 PM", "Sep 26th, 0000 3:05 PM", "٣:٠٥ PM"),
    ],
)
def test_what_is_no_time_is_none(said):
    assert parse_clock_time(said, NOW, BERLIN) is None


@given(st.text() | st.from_regex(r"(\w{3} \d{1,2}th, \d{4} )?\d{1,2}:\d\d [AP]M"), moments)
def test_any_text_is_a_moment_or_none(text, now):
    for words in (text, find_clock_time(f"try again at {text}")):
        found = resolve_clock_time(LimitSignal(Outcome.QUOTA, clock_time=words), now)
        assert isinstance(found, LimitSignal)
        assert bool(found.resets_at) == (parse_clock_time(words, now) is not None)


def wall(message):
    line = json.dumps({"type": "turn.failed", "error": {"message": message}})
    limit, ended = KINDS["codex"].events(OutputLine(OutputStream.STDOUT, line))
    assert ended.outcome is Outcome.QUOTA
    return limit


def test_a_wall_of_codex_with_a_time_of_day_has_its_moment():
    limit = wall("You've hit your usage limit. Upgrade to Pro, or try again at 3:05 PM.")
    assert resolve_clock_time(limit, NOW, BERLIN).resets_at == format_timestamp(
        NOW + timedelta(hours=1, minutes=6)
    )
    other = wall("You\u2019ve hit your usage limit. Try again at Sep 26th, 2026 3:05 PM.")
    assert resolve_clock_time(other, NOW, BERLIN).resets_at == format_timestamp(
        NOW + timedelta(hours=25, minutes=6)
    )
    older = wall("You've hit your usage limit. Try again in 2 days 3 hours 5 minutes.")
    assert older.retry_after_seconds == 183_900 and resolve_clock_time(older, NOW, BERLIN) == older


def test_a_moment_that_is_named_for_programs_stays():
    named = LimitSignal(Outcome.QUOTA, resets_at="2026-09-25T20:00:00.000Z", clock_time="3:05 PM")
    assert resolve_clock_time(named, NOW, BERLIN) is named
