"""The pure rules: tokens, deadlines, stamps, scopes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.model import TokenStatus, format_timestamp, parse_timestamp
from hostler.store.engine.postgres import scope_key, scope_keys
from hostler.store.outbox import TokenEvent, next_attempts, next_status
from hostler.store.transaction import age, clamped_deadline, normal_stamp, not_after

moments = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
spans = st.timedeltas(timedelta(0), timedelta(days=400))
statuses = st.sampled_from(TokenStatus)
events = st.sampled_from(TokenEvent)


@given(moments, moments, spans)
def test_a_deadline_is_never_farther_ahead_than_its_maximum(stored, now, maximum):
    believed = clamped_deadline(stored, now, maximum)
    assert believed <= now + maximum
    assert believed == stored or stored > now + maximum


@given(moments, spans, spans, spans)
def test_no_jump_of_the_clock_prolongs_a_wait_beyond_its_maximum(set_at, ahead, jump, maximum):
    stored = set_at + min(ahead, maximum)
    assert clamped_deadline(stored, set_at - jump, maximum) - (set_at - jump) <= maximum
    assert clamped_deadline(stored, set_at + jump, maximum) <= stored


@given(moments, moments)
def test_a_stamp_from_the_future_counts_as_now(stored, now):
    assert not_after(stored, now) <= now
    assert age(stored, now) >= timedelta(0)
    assert age(now, now) == timedelta(0)


@given(moments, moments)
def test_the_order_of_normal_stamps_is_the_order_of_moments(one, other):
    first, second = normal_stamp(one.isoformat()), normal_stamp(other.isoformat())
    assert len(first) == len(second)
    assert (first < second) <= (one < other)
    assert normal_stamp(first) == first


def test_seconds_from_github_and_our_milliseconds_sort_together():
    assert normal_stamp("2026-03-01T12:00:00Z") == "2026-03-01T12:00:00.000Z"
    assert normal_stamp("2026-03-01T12:00:00Z") < format_timestamp(
        parse_timestamp("2026-03-01T12:00:00.001Z")
    )


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01", "2026-03-01T12:00:00"])
def test_what_is_no_moment_in_utc_is_not_stored(text):
    with pytest.raises(ValueError):
        normal_stamp(text)


@given(events)
def test_observed_is_final(event):
    assert next_status(TokenStatus.OBSERVED, event) is TokenStatus.OBSERVED


@given(statuses)
def test_an_observation_is_believed_whatever_was_thought_before(status):
    assert next_status(status, TokenEvent.OBSERVED) is TokenStatus.OBSERVED


@given(statuses, events)
def test_an_event_twice_means_the_same_as_once(status, event):
    once = next_status(status, event)
    assert next_status(once, event) is once


@given(statuses, events)
def test_nothing_becomes_planned_again(status, event):
    assert next_status(status, event) is not TokenStatus.PLANNED


@given(st.lists(events))
def test_a_write_that_exists_is_never_called_planned_and_attempts_count_answers(happened):
    status, attempts = TokenStatus.PLANNED, 0
    for event in happened:
        status, attempts = next_status(status, event), next_attempts(attempts, event)
    assert attempts == happened.count(TokenEvent.POSTED)
    assert (status is TokenStatus.OBSERVED) == (TokenEvent.OBSERVED in happened)
    assert (status is TokenStatus.PLANNED) == (not happened)


@given(statuses)
def test_only_unseen_writes_fail(status):
    failed = next_status(status, TokenEvent.FAILED)
    assert failed is (TokenStatus.OBSERVED if status is TokenStatus.OBSERVED else failed)
    assert failed in {TokenStatus.FAILED, TokenStatus.OBSERVED}


@given(st.lists(st.text()))
def test_scopes_are_taken_in_one_order_whatever_the_caller_says(names):
    keys = scope_keys(names)
    assert keys == scope_keys(reversed(names)) == sorted(keys)
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_a_scope_has_the_same_number_in_every_version():
    assert scope_key("admission") == -8_702_515_555_274_043_073
