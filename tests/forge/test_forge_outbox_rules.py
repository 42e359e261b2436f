"""The pure rules of sending, under any order of outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hostler.errors import (
    Conflict,
    CredentialsMissing,
    Forbidden,
    Gone,
    Invalid,
    Moved,
    NotFound,
    RateLimited,
    ServerFailed,
    Unauthorized,
    Unclear,
    Unreachable,
)
from hostler.forge.outbox.rules import (
    LONGEST_WAIT,
    Abandon,
    Absent,
    Look,
    Pace,
    Send,
    Wait,
    abandoned,
    after,
    choose,
    look_since,
    mark,
    sent,
)
from hostler.forge.port import Made
from hostler.model import ScopeKind, stamp
from hostler.store.outbox import Lane, OutboxRow, WriteState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PACE = Pace()
SECOND = timedelta(seconds=1)
WAITS = [
    Unreachable("x", "y"),
    Unauthorized("x", 401, "y"),
    CredentialsMissing("x"),
    ServerFailed("x", 502),
    RateLimited("x", 403, NOW + timedelta(seconds=60), "secondary"),
]
REFUSALS = [
    Forbidden("x", 403, "y"),
    NotFound("x", 404, "y"),
    Conflict("x", 409, "y"),
    Invalid("x", 422, "y"),
]
FINAL = [Gone("x", 410, "y"), Moved("x", 301, "y")]
UNCLEAR = Unclear("x", "y")


def write(sequence=1, *, thread=7, lane=Lane.STATUS, state=WriteState.QUEUED, at=NOW, **more):
    return OutboxRow(
        repo_full_name="octo/stable",
        token=f"t{sequence}",
        scope_kind=ScopeKind.ISSUE,
        scope_number=thread,
        lane=lane,
        kind="comment",
        payload="{}",
        state=state,
        not_before=stamp(at),
        sequence=sequence,
        **more,
    )


def choice(*rows, now=NOW, last=None):
    return choose(rows, now, last, PACE)


def test_nothing_to_do_is_no_reason_to_wake():
    assert choice() == Wait(None)


def test_a_thread_gives_its_oldest_write_even_if_a_later_one_is_due():
    waiting = write(1, at=NOW + SECOND)
    assert choice(write(2), waiting) == Wait(NOW + SECOND)


def test_a_thread_that_waits_stops_no_other():
    other = write(2, thread=8)
    assert choice(write(1, at=NOW + 60 * SECOND), other) == Send(other)


def test_lanes_go_by_urgency_then_by_age():
    status, feedback = write(1, thread=1), write(2, thread=2, lane=Lane.FEEDBACK)
    operator = write(3, thread=3, lane=Lane.OPERATOR)
    assert choice(status, feedback, operator) == Send(operator)
    assert choice(status, feedback) == Send(feedback)
    assert choice(write(5, thread=5), status) == Send(status)


def test_an_urgent_write_pulls_the_head_of_its_thread():
    head, urgent = write(5, thread=5), write(6, thread=5, lane=Lane.OPERATOR)
    assert choice(write(1, thread=1), head, urgent) == Send(head)


def test_writes_keep_their_distance_and_looks_do_not():
    row = write()
    assert choice(row, last=NOW) == Wait(NOW + PACE.between_writes)
    assert choice(row, now=NOW + SECOND, last=NOW) == Send(row)
    unclear = write(state=WriteState.UNCLEAR)
    assert choice(unclear, last=NOW) == Look(unclear)


def test_a_write_from_the_future_delays_nobody_for_long():
    assert choice(write(), last=NOW + timedelta(days=300)) == Wait(NOW + PACE.between_writes)


def test_a_stored_wait_is_not_believed_beyond_its_maximum():
    far = write(at=NOW + timedelta(days=300))
    assert choice(far) == Wait(NOW + LONGEST_WAIT)


def test_a_limit_stops_every_thread_until_it_is_over():
    limited = write(1, at=NOW + 60 * SECOND, error_kind="RateLimited")
    others = [write(2, thread=8), write(3, thread=9, state=WriteState.UNCLEAR)]
    assert choice(limited, *others) == Wait(NOW + 60 * SECOND)
    assert choice(limited, *others, now=NOW + 60 * SECOND) == Send(limited)


def test_what_was_left_behind_as_sending_is_looked_for():
    row = write(state=WriteState.SENDING)
    assert choice(row) == Look(row)


def test_a_write_waits_for_what_it_depends_on_and_falls_with_it():
    for state in (WriteState.QUEUED, WriteState.SENDING, WriteState.UNCLEAR):
        assert choice(write(depends_on="t0", dependency=state)) == Wait(None)
    ready = write(depends_on="t0", dependency=WriteState.SENT)
    assert choice(ready) == Send(ready)
    fallen = write(depends_on="t0", dependency=WriteState.FAILED)
    assert choice(fallen) == Abandon(fallen)
    assert abandoned(fallen).state is WriteState.FAILED
    assert "t0" in abandoned(fallen).last_error


def test_an_intent_keeps_its_first_time_and_looks_reach_behind_it():
    first = mark(write(), NOW, NOW, PACE)
    again = mark(replace(first, state=WriteState.QUEUED), NOW + 9 * SECOND, NOW, PACE)
    assert (again.intent_at, again.attempts) == (first.intent_at, 2)
    assert again.attempted_at == stamp(NOW + 9 * SECOND)
    assert look_since(again, PACE) == NOW - PACE.overlap


@pytest.mark.parametrize("error", WAITS, ids=lambda error: type(error).__name__)
def test_what_is_not_the_writes_fault_is_no_attempt(error):
    row = mark(write(), NOW, NOW, PACE)
    for _ in range(50):
        row = after(row, error, NOW, PACE)
        assert (row.state, row.attempts) == (WriteState.QUEUED, 0)
        assert NOW < datetime.fromisoformat(row.not_before) <= NOW + LONGEST_WAIT
        row = mark(row, NOW, NOW, PACE)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_a_refused_write_fails_after_its_attempts(error):
    row, tries = write(), 0
    while not row.settled:
        row = after(mark(row, NOW, NOW, PACE), error, NOW, PACE)
        tries += 1
    assert (row.state, tries, row.error_kind) == (
        WriteState.FAILED,
        PACE.max_attempts,
        type(error).__name__,
    )


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("state", [WriteState.SENDING, WriteState.UNCLEAR])
def test_what_cannot_come_back_fails_at_once(error, state):
    assert after(write(state=state), error, NOW, PACE).state is WriteState.FAILED


@pytest.mark.parametrize("error", [*WAITS, *REFUSALS, UNCLEAR], ids=lambda e: type(e).__name__)
def test_a_look_that_fails_never_leads_to_sending(error):
    row = after(mark(write(), NOW, NOW, PACE), UNCLEAR, NOW, PACE)
    for _ in range(PACE.max_looks):
        row = after(row, error, NOW, PACE)
        assert row.state is WriteState.UNCLEAR
        assert datetime.fromisoformat(row.not_before) > NOW
    row = after(row, error, NOW, PACE)
    # Who does not let us look will not do so later; an outage will pass.
    assert row.state is (WriteState.UNCLEAR if error in WAITS else WriteState.FAILED)


def test_absence_is_believed_only_after_the_visibility_delay():
    row = after(mark(write(), NOW, NOW, PACE), UNCLEAR, NOW, PACE)
    at = NOW
    while row.state is WriteState.UNCLEAR:
        at = datetime.fromisoformat(row.not_before)
        row = after(row, Absent(at), at, PACE)
        assert (row.state is WriteState.QUEUED) == (at >= NOW + PACE.visibility)
    assert at == NOW + PACE.visibility


def test_a_jump_of_our_clock_does_not_shorten_the_delay():
    row = after(mark(write(), NOW, NOW, PACE), UNCLEAR, NOW, PACE)
    jumped = NOW + timedelta(days=1)
    assert after(row, Absent(NOW + SECOND), jumped, PACE).state is WriteState.UNCLEAR


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
    found = choose(many, now, None, PACE)
    if isinstance(found, Wait):
        assert (found.until is None) == (not many)
        if found.until is not None:
            assert found.until > now
            assert not isinstance(choose(many, found.until, None, PACE), Wait)
    else:
        thread = [row for row in many if row.scope_number == found.row.scope_number]
        assert found.row.sequence == min(row.sequence for row in thread)
        assert (found.row.state is WriteState.QUEUED) == isinstance(found, Send)


class Sending(RuleBasedStateMachine):
    """Several writes, a host that hides, loses and refuses, a sender that dies: each once."""

    @initialize(count=st.integers(1, 4), threads=st.integers(1, 2))
    def begin(self, count, threads):
        self.now = NOW
        self.rows = {n: write(n, thread=n % threads) for n in range(1, count + 1)}
        # When each effect came to be, and when it can be seen.
        self.effects: dict[int, list[datetime]] = {n: [] for n in self.rows}
        self.visible: dict[int, datetime] = {}
        self.order: list[int] = []

    def open(self):
        return [row for row in self.rows.values() if not row.settled]

    def chosen(self):
        return choose(self.open(), self.now, None, PACE)

    def take_effect(self, row, hidden):
        self.effects[row.sequence].append(self.now)
        self.visible.setdefault(row.sequence, self.now + timedelta(seconds=hidden))
        self.order.append(row.sequence)

    @precondition(lambda self: isinstance(self.chosen(), Send))
    @rule(
        answer=st.sampled_from(["201", "lost", "lost before", "crash", "crash before", "no"]),
        hidden=st.integers(0, 299),
        refusal=st.sampled_from([*WAITS, *REFUSALS]),
    )
    def send(self, answer, hidden, refusal):
        row = mark(self.chosen().row, self.now, self.now, PACE)
        if answer in ("201", "lost", "crash"):
            self.take_effect(row, hidden)
        if answer == "201":
            row = after(row, Made(id=row.sequence), self.now, PACE)
        elif answer.startswith("lost"):
            row = after(row, UNCLEAR, self.now, PACE)
        elif answer == "no":
            row = after(row, refusal, self.now, PACE)
        self.rows[row.sequence] = row

    @precondition(lambda self: isinstance(self.chosen(), Look))
    @rule(error=st.sampled_from([None, None, None, *WAITS]))
    def look(self, error):
        row = replace(self.chosen().row, state=WriteState.UNCLEAR)
        seen = self.visible.get(row.sequence, datetime.max.replace(tzinfo=UTC)) <= self.now
        outcome = error or (Made(id=row.sequence) if seen else Absent(self.now))
        self.rows[row.sequence] = after(row, outcome, self.now, PACE)

    @rule()
    def show(self):
        """A feed shows what can be seen of ours."""
        for row in self.open():
            if self.visible.get(row.sequence, datetime.max.replace(tzinfo=UTC)) <= self.now:
                self.rows[row.sequence] = sent(row, Made(id=row.sequence))

    @precondition(lambda self: isinstance(self.chosen(), Wait) and self.chosen().until)
    @rule()
    def wait(self):
        self.now = self.chosen().until

    @invariant()
    def no_write_has_two_effects(self):
        assert all(len(times) <= 1 for times in self.effects.values())

    @invariant()
    def what_is_sent_exists(self):
        for row in self.rows.values():
            if row.state is WriteState.SENT:
                assert len(self.effects[row.sequence]) == 1

    @invariant()
    def threads_keep_their_order(self):
        for thread in {row.scope_number for row in self.rows.values()}:
            made = [n for n in self.order if self.rows[n].scope_number == thread]
            assert made == sorted(made)

    def teardown(self):
        """Left alone with a host that works, everything comes to an end."""
        for _ in range(500):
            choice = self.chosen()
            if isinstance(choice, Wait):
                if choice.until is None:
                    break
                self.now = choice.until
            elif isinstance(choice, Look):
                row = replace(choice.row, state=WriteState.UNCLEAR)
                seen = self.visible.get(row.sequence)
                found = seen is not None and seen <= self.now
                outcome = Made(id=1) if found else Absent(self.now)
                self.rows[row.sequence] = after(row, outcome, self.now, PACE)
            else:
                row = mark(choice.row, self.now, self.now, PACE)
                self.take_effect(row, 0)
                self.rows[row.sequence] = after(row, Made(id=1), self.now, PACE)
        assert not self.open()
        self.no_write_has_two_effects()


TestSending = Sending.TestCase
TestSending.settings = settings(max_examples=60, stateful_step_count=30)
