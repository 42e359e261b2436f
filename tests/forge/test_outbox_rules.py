"""The pure rules of sending, under any order of outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outbox_rows import FINAL, NOW, PACE, REFUSALS, SECOND, UNCLEAR, WAITS, write

from hostler.forge.actions import CreateLabel
from hostler.forge.outbox.rules import (
    MAX_WAIT,
    AbandonStep,
    LookupStep,
    NotFoundOutcome,
    SendStep,
    WaitStep,
    apply_outcome,
    choose_step,
    lookup_since,
    mark_abandoned,
    mark_attempt,
)
from hostler.model import format_timestamp
from hostler.store.outbox import Lane, WriteState


def choice(*rows, now=NOW, last=None):
    return choose_step(rows, now, last, PACE)


def test_nothing_to_do_is_no_reason_to_wake():
    assert choice() == WaitStep(None)


def test_a_thread_gives_its_oldest_write_even_if_a_later_one_is_due():
    waiting = write(1, at=NOW + SECOND)
    assert choice(write(2), waiting) == WaitStep(NOW + SECOND)


def test_a_thread_that_waits_stops_no_other():
    other = write(2, thread=8)
    assert choice(write(1, at=NOW + 60 * SECOND), other) == SendStep(other)


def test_lanes_go_by_urgency_then_by_age():
    status, feedback = write(1, thread=1), write(2, thread=2, lane=Lane.FEEDBACK)
    operator = write(3, thread=3, lane=Lane.OPERATOR)
    assert choice(status, feedback, operator) == SendStep(operator)
    assert choice(status, feedback) == SendStep(feedback)
    assert choice(write(5, thread=5), status) == SendStep(status)


def test_an_urgent_write_pulls_the_head_of_its_thread():
    head, urgent = write(5, thread=5), write(6, thread=5, lane=Lane.OPERATOR)
    assert choice(write(1, thread=1), head, urgent) == SendStep(head)


def test_writes_keep_their_distance_and_looks_do_not():
    row = write()
    assert choice(row, last=NOW) == WaitStep(NOW + PACE.between_writes)
    assert choice(row, now=NOW + SECOND, last=NOW) == SendStep(row)
    unclear = write(state=WriteState.UNCLEAR)
    assert choice(unclear, last=NOW) == LookupStep(unclear)


def test_a_write_from_the_future_delays_nobody():
    # A distance to it would go away from us as fast as time passes.
    for ahead in (SECOND, timedelta(hours=3), timedelta(days=300)):
        assert choice(write(), last=NOW + ahead) == SendStep(write())


def test_a_stored_wait_is_not_believed_beyond_its_maximum():
    longest = write(at=NOW + MAX_WAIT)
    assert choice(longest) == WaitStep(NOW + MAX_WAIT)
    # It would go away from us as fast as time passes.
    far = write(at=NOW + timedelta(days=300))
    assert choice(far) == SendStep(far)


def test_a_limit_stops_every_thread_until_it_is_over():
    limited = write(1, at=NOW + 60 * SECOND, error_kind="RateLimited")
    others = [write(2, thread=8), write(3, thread=9, state=WriteState.UNCLEAR)]
    assert choice(limited, *others) == WaitStep(NOW + 60 * SECOND)
    assert choice(limited, *others, now=NOW + 60 * SECOND) == SendStep(limited)


def test_a_limit_of_one_account_stops_no_write_of_another():
    limited = write(1, at=NOW + 60 * SECOND, error_kind="RateLimited")
    same, other = write(2, thread=8), write(3, thread=9)

    def payer(row):
        return "theirs" if row is other else "ours"

    assert choose_step([limited, same, other], NOW, None, PACE, payer) == SendStep(other)
    assert choose_step([limited, same], NOW, None, PACE, payer) == WaitStep(NOW + 60 * SECOND)


def test_what_was_left_behind_as_sending_is_looked_for():
    row = write(state=WriteState.SENDING)
    assert choice(row) == LookupStep(row)


def test_a_write_waits_for_what_it_depends_on_and_falls_with_it():
    for state in (WriteState.QUEUED, WriteState.SENDING, WriteState.UNCLEAR):
        assert choice(write(depends_on="t0", dependency=state)) == WaitStep(None)
    ready = write(depends_on="t0", dependency=WriteState.SENT)
    assert choice(ready) == SendStep(ready)
    fallen = write(depends_on="t0", dependency=WriteState.FAILED)
    assert choice(fallen) == AbandonStep(fallen)
    assert mark_abandoned(fallen).state is WriteState.FAILED
    assert "t0" in mark_abandoned(fallen).last_error


def test_an_intent_keeps_its_first_time_and_looks_reach_behind_it():
    first = mark_attempt(write(), NOW, NOW, PACE)
    again = mark_attempt(replace(first, state=WriteState.QUEUED), NOW + 9 * SECOND, NOW, PACE)
    assert (again.intent_at, again.attempts) == (first.intent_at, 2)
    assert again.attempted_at == format_timestamp(NOW + 9 * SECOND)
    assert lookup_since(again, PACE) == NOW - PACE.overlap


@pytest.mark.parametrize("error", WAITS, ids=lambda error: type(error).__name__)
def test_what_is_not_the_writes_fault_is_no_attempt(error):
    row = mark_attempt(write(), NOW, NOW, PACE)
    for _ in range(50):
        row = apply_outcome(row, error, NOW, PACE)
        assert (row.state, row.attempts) == (WriteState.QUEUED, 0)
        assert NOW < datetime.fromisoformat(row.not_before) <= NOW + MAX_WAIT
        row = mark_attempt(row, NOW, NOW, PACE)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_a_refused_write_fails_after_its_attempts(error):
    row, tries = write(), 0
    while not row.settled:
        row = apply_outcome(mark_attempt(row, NOW, NOW, PACE), error, NOW, PACE)
        tries += 1
    assert (row.state, tries, row.error_kind) == (
        WriteState.FAILED,
        PACE.max_attempts,
        type(error).__name__,
    )


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("state", [WriteState.SENDING, WriteState.UNCLEAR])
def test_what_cannot_come_back_fails_at_once(error, state):
    assert apply_outcome(write(state=state), error, NOW, PACE).state is WriteState.FAILED


@pytest.mark.parametrize("error", [*WAITS, *REFUSALS, UNCLEAR], ids=lambda e: type(e).__name__)
def test_a_look_that_fails_never_leads_to_sending(error):
    row = apply_outcome(mark_attempt(write(), NOW, NOW, PACE), UNCLEAR, NOW, PACE)
    for _ in range(PACE.max_lookups):
        row = apply_outcome(row, error, NOW, PACE)
        assert row.state is WriteState.UNCLEAR
        assert datetime.fromisoformat(row.not_before) > NOW
    row = apply_outcome(row, error, NOW, PACE)
    # Who does not let us look will not do so later; an outage will pass.
    assert row.state is (WriteState.UNCLEAR if error in WAITS else WriteState.FAILED)


def test_absence_is_believed_only_after_the_visibility_delay():
    row = apply_outcome(mark_attempt(write(), NOW, NOW, PACE), UNCLEAR, NOW, PACE)
    at = NOW
    while row.state is WriteState.UNCLEAR:
        at = datetime.fromisoformat(row.not_before)
        row = apply_outcome(row, NotFoundOutcome(at), at, PACE)
        assert (row.state is WriteState.QUEUED) == (at >= NOW + PACE.visibility)
    assert at == NOW + PACE.visibility


def test_what_github_does_only_once_is_sent_again_as_soon_as_it_is_not_seen():
    row, waits = replace(write(), kind=CreateLabel.kind), []
    while row.attempts < PACE.max_attempts:
        marked = mark_attempt(row, NOW, NOW, PACE)
        assert choice(marked) == LookupStep(marked)
        row = apply_outcome(
            apply_outcome(marked, UNCLEAR, NOW, PACE), NotFoundOutcome(NOW), NOW, PACE
        )
        waits.append((datetime.fromisoformat(row.not_before) - NOW).total_seconds())
    assert waits == [0, 5, 15, 35, 5]
    assert row.state is WriteState.UNCLEAR
    assert (
        apply_outcome(row, NotFoundOutcome(NOW + PACE.visibility), NOW, PACE).state
        is WriteState.FAILED
    )


def test_a_jump_of_our_clock_does_not_shorten_the_delay():
    row = apply_outcome(mark_attempt(write(), NOW, NOW, PACE), UNCLEAR, NOW, PACE)
    jumped = NOW + timedelta(days=1)
    assert (
        apply_outcome(row, NotFoundOutcome(NOW + SECOND), jumped, PACE).state is WriteState.UNCLEAR
    )


times = st.integers(0, 600).map(lambda seconds: NOW + timedelta(seconds=seconds))
rows = st.builds(
    write,
    st.integers(1, 50),
    thread=st.integers(1, 4),
    lane=st.sampled_from(Lane),
    state=st.sampled_from([WriteState.QUEUED, WriteState.SENDING, WriteState.UNCLEAR]),
    at=times,
    error_kind=st.sampled_from([None, None, "RateLimited"]),
)


@given(st.lists(rows, max_size=12, unique_by=lambda row: row.sequence), times)
def test_whatever_waits_is_chosen_when_its_time_comes(many, now):
    found = choose_step(many, now, None, PACE)
    if isinstance(found, WaitStep):
        assert (found.until is None) == (not many)
        if found.until is not None:
            assert found.until > now
            assert not isinstance(choose_step(many, found.until, None, PACE), WaitStep)
    else:
        thread = [row for row in many if row.scope_number == found.row.scope_number]
        assert found.row.sequence == min(row.sequence for row in thread)
        assert (found.row.state is WriteState.QUEUED) == isinstance(found, SendStep)
