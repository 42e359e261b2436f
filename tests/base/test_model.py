from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.model import EPOCH, RepoName, format_timestamp, parse_timestamp

moments = st.datetimes(
    min_value=datetime.min.replace(year=1970),
    max_value=datetime.max.replace(year=9998),
    timezones=st.timezones(),
)


@given(moments, moments)
def test_stamps_have_one_width_and_sort_as_time_does(first: datetime, second: datetime):
    assert len(format_timestamp(first)) == len(format_timestamp(second)) == 24
    if format_timestamp(first) < format_timestamp(second):
        assert first < second


@given(moments)
def test_a_stamp_read_back_is_the_moment_to_the_millisecond(moment: datetime):
    read = parse_timestamp(format_timestamp(moment))
    assert timedelta(0) <= moment.astimezone(UTC) - read < timedelta(milliseconds=1)
    assert format_timestamp(read) == format_timestamp(moment)


def test_githubs_form_without_fractions_is_read():
    assert parse_timestamp("2026-02-24T19:39:09Z") == datetime(2026, 2, 24, 19, 39, 9, tzinfo=UTC)
    other_zone = parse_timestamp("2026-02-24T20:39:09+01:00")
    assert other_zone == parse_timestamp("2026-02-24T19:39:09Z")
    assert other_zone.tzinfo is UTC


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-24T19:39:09", "2026-13-01T00:00:00Z"])
def test_what_is_no_moment_is_refused(text: str):
    with pytest.raises(ValueError):
        parse_timestamp(text)


def test_a_moment_without_a_zone_is_never_stored():
    with pytest.raises(ValueError, match="time zone"):
        format_timestamp(EPOCH.replace(tzinfo=None))


def test_zones_do_not_change_the_stamp():
    east = timezone(timedelta(hours=5, minutes=45))
    assert format_timestamp(EPOCH.astimezone(east)) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize("text", ["octo/hello", "a/b", "o-c/x.y_z-1", "o" * 39 + "/" + "n" * 100])
def test_a_repository_name_reads_and_prints_the_same(text: str):
    assert str(RepoName.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "octo", "/x", "octo/", "octo/..", "octo/.", "-o/x", "o-/x", "o--c/x", "o/x y", "o/x/y",
     "../../etc/passwd", "o/x\n", "ö/x", "o" * 40 + "/x", "o/" + "n" * 101],
)  # fmt: skip
def test_what_cannot_be_a_repository_is_refused(text: str):
    with pytest.raises(ValueError):
        RepoName.parse(text)
