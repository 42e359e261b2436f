"""Sending at its limits: waits, attempts, what is kept of an outcome, and what is looked for."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from outbox_rows import FINAL, NOW, PACE, REFUSALS, SECOND, UNCLEAR, WAITS, write

from hostler.clock import FakeClock
from hostler.errors import Forbidden, RateLimited, StoreConflict, Unauthorized, Unreachable
from hostler.forge.actions import CreateComment, CreateLabel, encode_action
from hostler.forge.outbox import queue, reconciler
from hostler.forge.outbox.reconciler import (
    MARKED_KINDS,
    WriteReconciler,
    first_lookup_at,
    next_lookup_at,
)
from hostler.forge.outbox.rules import (
    AbandonStep,
    LookupStep,
    NotFoundOutcome,
    OutboxPolicy,
    SendStep,
    WaitStep,
    apply_outcome,
    choose_step,
    is_rate_limited,
    lookup_since,
    mark_abandoned,
    mark_attempt,
    mark_sent,
    mark_unreadable,
    same_account,
)
from hostler.forge.port import ActionResult
from hostler.model import RepoName, ScopeKind, TokenStatus, format_timestamp, parse_timestamp
from hostler.store.outbox import Lane, Unobserved, WriteState
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import ACTION_TOKEN_UNOBSERVED_AGE

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
LIMIT = RateLimited("x", 403, NOW + 60 * SECOND, "secondary")


def limited(sequence, *, at, **more):
    return write(sequence, at=at, error_kind="RateLimited", **more)


def test_the_usual_pace():
    usual = OutboxPolicy()
    assert usual == OutboxPolicy(
        between_writes=SECOND,
        visibility=5 * MINUTE,
        overlap=5 * SECOND,
        max_attempts=5,
        max_lookups=20,
        first_wait=2 * SECOND,
        first_lookup_wait=5 * SECOND,
        max_wait=5 * MINUTE,
    )


# -- choosing --------------------------------------------------------------------------------------


def test_a_stored_wait_of_an_hour_is_believed_and_a_longer_one_is_over():
    assert choose_step([write(at=NOW + HOUR)], NOW, None, PACE) == WaitStep(NOW + HOUR)
    far = write(at=NOW + HOUR + SECOND)
    assert choose_step([far], NOW, None, PACE) == SendStep(far)


def test_a_write_is_due_at_its_moment():
    due = write(at=NOW)
    assert choose_step([due], NOW, None, PACE) == SendStep(due)
    assert choose_step([write(at=NOW + SECOND)], NOW, None, PACE) == WaitStep(NOW + SECOND)


def test_the_distance_counts_from_a_last_write_at_this_very_moment():
    assert choose_step([write()], NOW, NOW, PACE) == WaitStep(NOW + SECOND)
    ahead = choose_step([write()], NOW, NOW + timedelta(milliseconds=1), PACE)
    assert isinstance(ahead, SendStep)


def test_the_first_of_several_waits_is_told():
    rows = [write(1, thread=1, at=NOW + 3 * SECOND), write(2, thread=2, at=NOW + 2 * SECOND)]
    assert choose_step(rows, NOW, None, PACE) == WaitStep(NOW + 2 * SECOND)


def test_what_depends_on_an_open_write_waits_without_a_time():
    for state in (WriteState.QUEUED, WriteState.SENDING, WriteState.UNCLEAR):
        assert choose_step([write(dependency=state)], NOW, None, PACE) == WaitStep(None)
    ready = write(dependency=WriteState.SENT)
    assert choose_step([ready], NOW, None, PACE) == SendStep(ready)
    lost = write(dependency=WriteState.FAILED, at=NOW + MINUTE)
    assert choose_step([lost], NOW, None, PACE) == AbandonStep(lost)


def test_a_write_that_waits_for_another_stops_no_other_thread():
    other = write(2, thread=8)
    assert choose_step([write(dependency=WriteState.QUEUED), other], NOW, None, PACE) == SendStep(
        other
    )


def test_a_limit_stops_the_whole_account_until_its_last_moment():
    rows = [
        limited(1, thread=1, at=NOW + 20 * SECOND),
        limited(2, thread=2, at=NOW + 30 * SECOND),
        write(3, thread=3),
    ]
    assert choose_step(rows, NOW, None, PACE) == WaitStep(NOW + 30 * SECOND)
    rows.reverse()
    assert choose_step(rows, NOW, None, PACE) == WaitStep(NOW + 30 * SECOND)
    later = choose_step(rows, NOW + 30 * SECOND, None, PACE)
    assert later == SendStep(rows[2])


def test_a_limit_stops_no_other_account():
    free = write(2, thread=2)
    rows = [limited(1, thread=1, at=NOW + 20 * SECOND), free]
    assert choose_step(rows, NOW, None, PACE, lambda row: row.token) == SendStep(free)
    assert same_account(free) == "" and is_rate_limited(rows[0]) and not is_rate_limited(free)


def test_looks_wait_for_a_limit_too():
    rows = [limited(1, thread=1, at=NOW + 20 * SECOND), write(2, state=WriteState.UNCLEAR)]
    assert choose_step(rows, NOW, None, PACE) == WaitStep(NOW + 20 * SECOND)
    sending = write(2, state=WriteState.SENDING)
    assert choose_step([sending], NOW, NOW, PACE) == LookupStep(sending)


def test_threads_of_the_same_number_in_other_repositories_are_others():
    mine, theirs = write(1, at=NOW + MINUTE), replace(write(2), repo_full_name="octo/other")
    assert choose_step([mine, theirs], NOW, None, PACE) == SendStep(theirs)


def test_of_equal_urgency_the_older_thread_is_first():
    rows = [write(2, thread=2), write(1, thread=1)]
    assert choose_step(rows, NOW, None, PACE) == SendStep(rows[1])
    rows.append(write(3, thread=2, lane=Lane.FEEDBACK))
    assert choose_step(rows, NOW, None, PACE) == SendStep(rows[0])


# -- outcomes --------------------------------------------------------------------------------------


def test_a_write_that_leaves_is_looked_for_after_five_seconds():
    row = write(attempts=2, error_kind="X", last_error="y")
    marked = mark_attempt(row, NOW + SECOND, NOW, PACE)
    assert marked == replace(
        row,
        state=WriteState.SENDING,
        attempts=3,
        intent_at=format_timestamp(NOW + SECOND),
        attempted_at=format_timestamp(NOW + SECOND),
        not_before=format_timestamp(NOW + 5 * SECOND),
        error_kind=None,
        last_error=None,
    )
    again = mark_attempt(replace(marked, state=WriteState.QUEUED), NOW + MINUTE, NOW, PACE)
    assert again.intent_at == marked.intent_at and again.attempted_at == format_timestamp(
        NOW + MINUTE
    )
    unique = replace(row, kind=CreateLabel.kind)
    assert mark_attempt(unique, NOW, NOW, PACE).not_before == format_timestamp(NOW)


def test_a_write_that_exists_keeps_what_names_it():
    row = write(state=WriteState.SENDING, setbacks=3, error_kind="X", last_error="y")
    made = mark_sent(row, ActionResult(5, 6, "http://x"))
    assert (made.state, made.setbacks, made.error_kind, made.last_error) == (
        WriteState.SENT,
        0,
        None,
        None,
    )
    assert (made.result_id, made.result_number, made.result_url) == (5, 6, "http://x")
    bare = mark_sent(row, ActionResult())
    assert (bare.result_id, bare.result_number, bare.result_url) == (None, None, None)
    assert apply_outcome(row, ActionResult(5), NOW, PACE) == mark_sent(row, ActionResult(5))


def test_an_error_is_kept_by_its_kind_and_a_thousand_letters():
    long = Unreachable("x", "y" * 2000)
    kept = apply_outcome(write(state=WriteState.SENDING, attempts=1), long, NOW, PACE)
    assert kept.error_kind == "Unreachable" and kept.last_error == long.what[:1000]
    assert len(mark_unreadable(write(), "z" * 2000).last_error) == 1000


@pytest.mark.parametrize("error", FINAL)
@pytest.mark.parametrize("state", [WriteState.SENDING, WriteState.UNCLEAR])
def test_a_thread_that_is_gone_ends_the_write(error, state):
    assert apply_outcome(write(state=state), error, NOW, PACE).state is WriteState.FAILED


@pytest.mark.parametrize("error", REFUSALS)
def test_the_fifth_refusal_ends_the_write(error):
    row = write(state=WriteState.SENDING, attempts=4)
    kept = apply_outcome(row, error, NOW, PACE)
    assert kept.state is WriteState.QUEUED and kept.attempts == 4 and kept.setbacks == 1
    assert apply_outcome(replace(row, attempts=5), error, NOW, PACE).state is WriteState.FAILED


@pytest.mark.parametrize("error", WAITS)
def test_what_says_nothing_of_the_write_is_no_attempt(error):
    row = write(state=WriteState.SENDING, attempts=5)
    kept = apply_outcome(row, error, NOW, PACE)
    assert kept.state is WriteState.QUEUED and kept.attempts == 4
    queued = apply_outcome(replace(row, state=WriteState.QUEUED), error, NOW, PACE)
    assert queued.attempts == 5 and queued.state is WriteState.QUEUED


@pytest.mark.parametrize(
    ("setbacks", "seconds"), [(0, 2), (1, 4), (2, 8), (7, 256), (8, 300), (60, 300)]
)
def test_waits_double_up_to_five_minutes(setbacks, seconds):
    row = write(state=WriteState.SENDING, attempts=1, setbacks=setbacks)
    kept = apply_outcome(row, Unreachable("x", "y"), NOW, PACE)
    assert (
        kept.not_before == format_timestamp(NOW + seconds * SECOND)
        and kept.setbacks == setbacks + 1
    )


def test_a_wait_doubles_twenty_times_at_most():
    pace = replace(PACE, max_wait=timedelta(days=9000))
    row = write(state=WriteState.SENDING, attempts=1, setbacks=99)
    kept = apply_outcome(row, Unreachable("x", "y"), NOW, pace)
    assert kept.not_before == format_timestamp(NOW + 2 * SECOND * 2**20)
    unseen = replace(row, state=WriteState.UNCLEAR, attempted_at=format_timestamp(NOW))
    slow = replace(PACE, visibility=timedelta(days=9000))
    kept = apply_outcome(unseen, NotFoundOutcome(NOW), NOW, slow)
    assert kept.not_before == format_timestamp(NOW + 5 * SECOND * 2**20)


def test_a_limit_is_waited_out_between_two_seconds_and_an_hour():
    row = write(state=WriteState.SENDING, attempts=1, setbacks=3)

    def until(seconds):
        error = RateLimited("x", 403, NOW + seconds * SECOND, "primary")
        kept = apply_outcome(row, error, NOW, PACE)
        assert kept.setbacks == 3
        return parse_timestamp(kept.not_before) - NOW

    assert until(60) == 60 * SECOND and until(1) == 2 * SECOND == until(-9)
    assert until(3600) == HOUR == until(3601)


def test_an_unclear_answer_is_looked_into_after_five_seconds():
    row = write(state=WriteState.SENDING, attempts=2, setbacks=4)
    kept = apply_outcome(row, UNCLEAR, NOW, PACE)
    assert (kept.state, kept.setbacks, kept.attempts) == (WriteState.UNCLEAR, 0, 2)
    assert kept.not_before == format_timestamp(NOW + 5 * SECOND)


def test_the_twentieth_refused_look_gives_a_write_up():
    row = write(state=WriteState.UNCLEAR, setbacks=19)
    refused = Forbidden("x", 403, "y")
    kept = apply_outcome(row, refused, NOW, PACE)
    assert kept.state is WriteState.UNCLEAR and kept.setbacks == 20
    assert apply_outcome(kept, refused, NOW, PACE).state is WriteState.FAILED
    assert apply_outcome(kept, Unreachable("x", "y"), NOW, PACE).state is WriteState.UNCLEAR
    first = apply_outcome(replace(row, setbacks=0), refused, NOW, PACE)
    assert first.not_before == format_timestamp(NOW + 5 * SECOND)


def test_an_absent_write_is_looked_for_until_it_must_be_visible():
    row = write(
        state=WriteState.UNCLEAR, setbacks=1, attempts=1, attempted_at=format_timestamp(NOW)
    )
    kept = apply_outcome(row, NotFoundOutcome(NOW + SECOND), NOW, PACE)
    assert (kept.state, kept.setbacks) == (WriteState.UNCLEAR, 2)
    assert kept.not_before == format_timestamp(NOW + 10 * SECOND)
    last = apply_outcome(row, NotFoundOutcome(NOW + 298 * SECOND), NOW, PACE)
    assert (
        last.not_before == format_timestamp(NOW + 2 * SECOND) and last.state is WriteState.UNCLEAR
    )
    again = apply_outcome(row, NotFoundOutcome(NOW + 300 * SECOND), NOW, PACE)
    assert (again.state, again.setbacks) == (WriteState.QUEUED, 0)
    assert again.not_before == format_timestamp(NOW)


def test_a_write_without_a_moment_counts_from_the_look():
    row = write(state=WriteState.UNCLEAR, attempts=1)
    assert apply_outcome(row, NotFoundOutcome(NOW), NOW, PACE).state is WriteState.UNCLEAR


def test_a_write_that_was_never_seen_fails_after_its_attempts_and_says_so():
    row = write(state=WriteState.UNCLEAR, attempts=5, attempted_at=format_timestamp(NOW))
    late = NotFoundOutcome(NOW + HOUR)
    failed = apply_outcome(row, late, NOW, PACE)
    assert (failed.state, failed.last_error) == (WriteState.FAILED, "It was never found.")
    known = apply_outcome(replace(row, last_error="Timed out."), late, NOW, PACE)
    assert known.last_error == "Timed out."
    assert apply_outcome(replace(row, attempts=4), late, NOW, PACE).state is WriteState.QUEUED


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 0), (2, 5), (3, 15), (4, 35)])
def test_a_unique_deed_that_is_absent_is_sent_again_later_each_time(attempts, seconds):
    row = write(
        state=WriteState.UNCLEAR, attempts=attempts, attempted_at=format_timestamp(NOW), setbacks=2
    )
    again = apply_outcome(replace(row, kind=CreateLabel.kind), NotFoundOutcome(NOW), NOW, PACE)
    assert (again.state, again.setbacks) == (WriteState.QUEUED, 0)
    assert again.not_before == format_timestamp(NOW + seconds * SECOND)
    plain = apply_outcome(row, NotFoundOutcome(NOW + HOUR), NOW, PACE)
    assert plain.not_before == format_timestamp(NOW)


def test_a_unique_deed_whose_attempts_are_spent_is_looked_for_until_it_must_be_visible():
    row = write(state=WriteState.UNCLEAR, attempts=5, attempted_at=format_timestamp(NOW))
    spent = replace(row, kind=CreateLabel.kind)
    assert apply_outcome(spent, NotFoundOutcome(NOW), NOW, PACE).state is WriteState.UNCLEAR
    assert apply_outcome(spent, NotFoundOutcome(NOW + HOUR), NOW, PACE).state is WriteState.FAILED


def test_what_is_given_up_says_why():
    lost = mark_abandoned(write(depends_on="t0"))
    assert (lost.state, lost.error_kind) == (WriteState.FAILED, "Abandoned")
    assert lost.last_error == "A write that it depends on (t0) has failed."
    bad = mark_unreadable(write(), "no JSON")
    assert (bad.state, bad.error_kind, bad.last_error) == (WriteState.FAILED, "Broken", "no JSON")


def test_a_look_reaches_five_seconds_behind_the_first_attempt():
    row = write(at=NOW + MINUTE, intent_at=format_timestamp(NOW))
    assert lookup_since(row, PACE) == NOW - 5 * SECOND
    assert lookup_since(write(at=NOW + MINUTE), PACE) == NOW + 55 * SECOND


# -- storing an end --------------------------------------------------------------------------------


class Tokens:
    """The tokens of a repository, and what is noted of them."""

    def __init__(self, name, noted, status=TokenStatus.POSTED):
        self.noted, self.status = noted, status

    def get_action_token(self, tx, token):
        return self.status and SimpleNamespace(status=self.status)

    def record_action_token_failed(self, tx, token):
        self.noted.append(("failed", token))

    def record_action_token_posted(self, tx, token):
        self.noted.append(("posted", token))

    def record_action_token_observed(self, tx, token, *, comment_id, updated_at):
        self.noted.append(("observed", token, comment_id, updated_at))


@pytest.mark.parametrize(
    ("state", "seen", "noted"),
    [
        (WriteState.QUEUED, None, []),
        (WriteState.FAILED, None, [("failed", "t1"), "settled"]),
        (WriteState.FAILED, ActionResult(5, updated_at="x"), [("failed", "t1"), "settled"]),
        (WriteState.SENT, None, [("posted", "t1"), "settled"]),
        (WriteState.SENT, ActionResult(5, updated_at="x"), [("observed", "t1", 5, "x"), "settled"]),
        (WriteState.SENT, ActionResult(0, updated_at="x"), [("posted", "t1"), "settled"]),
        (WriteState.SENT, ActionResult(5), [("posted", "t1"), "settled"]),
    ],
)
def test_a_settled_write_moves_its_token_and_is_told_once(monkeypatch, state, seen, noted):
    found = []
    changes = []
    monkeypatch.setattr(queue, "Repo", lambda name: Tokens(name, found))
    monkeypatch.setattr(queue, "change_write", lambda *given: changes.append(given))
    before, end = write(), write(state=state)
    queue.settle_write("tx", before, end, lambda *_: found.append("settled"), found_result=seen)
    assert found == noted and changes == [("tx", before, end)]


# -- queueing --------------------------------------------------------------------------------------


def test_a_token_is_made_of_its_purpose_and_24_digits_of_its_cause():
    token = queue.build_token("reply", "a", 1)
    assert token == queue.build_token("reply", "a", 1) and len(token) == len("reply-") + 24
    assert token.startswith("reply-")
    others = [queue.build_token("reply", "a1"), queue.build_token("reply", "a", 2)]
    assert token not in others


def test_a_deed_is_queued_once_with_its_token(monkeypatch):
    rows, planned = {}, []
    repo = SimpleNamespace(record_action_token_planned=lambda tx, token, **m: planned.append(m))
    monkeypatch.setattr(queue, "Repo", lambda name: repo)
    monkeypatch.setattr(queue, "find_write", lambda tx, name, token: rows.get(token))
    monkeypatch.setattr(queue, "add_write", lambda tx, row: rows.update({row.token: row}))
    tx = SimpleNamespace(stamp=lambda: format_timestamp(NOW))

    def put(token, **more):
        given = {"token": token, "lane": Lane.STATUS, "source": "test", **more}
        return queue.enqueue_action(tx, RepoName("octo", "stable"), CreateComment(7, "x"), **given)

    first = put("t1")
    assert first is rows["t1"] and (first.state, first.not_before) == (
        WriteState.QUEUED,
        format_timestamp(NOW),
    )
    assert (first.kind, first.scope_number, first.lane) == ("comment", 7, Lane.STATUS)
    assert put("t1", lane=Lane.OPERATOR) is first and len(planned) == 1
    assert put("t2", depends_on="t1").depends_on == "t1"
    with pytest.raises(StoreConflict, match="t3 depends on t0, which was never queued"):
        put("t3", depends_on="t0")
    assert put("t4", scope_kind=ScopeKind.PR).scope_kind is ScopeKind.PR
    assert planned[0] == {"scope_kind": first.scope_kind, "scope_number": 7, "source": "test"}


# -- looking for what nobody has seen --------------------------------------------------------------

PATIENCE = 2 * MINUTE


class Hall:
    """A reconciler on a list of unseen writes; `find` answers for GitHub."""

    def __init__(self, monkeypatch):
        self.clock, self.rows, self.calls, self.missed, self.noted = FakeClock(), [], [], [], []
        self.answer, self.status, self.watched, self.asked = None, TokenStatus.POSTED, True, []
        store = SimpleNamespace(
            read=lambda: nullcontext("tx"),
            write=lambda *_: nullcontext(SimpleNamespace(stamp=lambda: "now")),
        )
        monkeypatch.setattr(reconciler, "unobserved_writes", self._unobserved)
        monkeypatch.setattr(reconciler, "unobserved_write", lambda tx, found: self._row(found))
        monkeypatch.setattr(reconciler, "Repo", lambda name: Tokens(name, self.noted, self.status))
        self.reconciler = WriteReconciler(
            store,
            lambda repo: self if self.watched else None,
            self.clock,
            PATIENCE,
            lambda row, looks: self.missed.append((row.token, looks)),
        )

    def _unobserved(self, tx, kinds, since, most):
        self.asked.append((kinds, since, most))
        return [*self.rows]

    def _row(self, found):
        payload = encode_action(CreateComment(7, "x"))
        row = write(intent_at=found.posted_at)
        return replace(row, token=found.token, payload=payload)

    def find_performed(self, deed, *, token, since):
        self.calls.append((token, since))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def put(self, token="t1", *, age=0):
        posted = format_timestamp(self.clock.now() - age * SECOND)
        self.rows.append(Unobserved(RepoName("octo", "stable"), token, posted))

    def look(self):
        return self.reconciler.find_due()

    def now(self):
        return self.clock.now()


@pytest.fixture
def hall(monkeypatch):
    return Hall(monkeypatch)


def test_deeds_that_leave_a_marker_are_looked_for_within_a_day(hall):
    assert MARKED_KINDS == ("comment", "reply", "open_issue", "open_pull")
    hall.look()
    assert set(hall.asked) == {
        (MARKED_KINDS, format_timestamp(hall.now() - timedelta(days=1)), 100)
    }


def test_an_unseen_write_is_looked_for_when_its_patience_is_over(hall):
    hall.put(age=119)
    assert hall.look() == hall.now() + SECOND and not hall.calls
    hall.clock.advance(1)
    posted = parse_timestamp(hall.rows[0].posted_at)
    hall.look()
    assert hall.calls == [("t1", posted - 5 * SECOND)] and hall.missed == [("t1", 1)]


def test_the_age_of_the_oldest_unseen_write_is_told(hall):
    hall.put(age=50)
    hall.put("t2", age=70)
    hall.look()
    assert metrics.value(ACTION_TOKEN_UNOBSERVED_AGE) == 70.0
    hall.rows.clear()
    assert hall.look() is None
    assert metrics.value(ACTION_TOKEN_UNOBSERVED_AGE) == 0.0


def test_each_look_in_vain_is_told_and_the_next_is_later_until_the_fifth(hall):
    hall.put(age=120)
    waits = []
    while (again := hall.look()) is not None:
        waits.append((again - hall.now()) / MINUTE)
        assert hall.look() == again
        hall.clock.advance((again - hall.now()).total_seconds())
    assert waits == [4, 8, 16, 32]
    assert hall.missed == [("t1", number) for number in (1, 2, 3, 4, 5)]
    hall.clock.advance(3600)
    assert hall.look() is None and len(hall.calls) == 5


def test_a_write_that_was_seen_meanwhile_begins_anew_if_it_is_missed_again(hall):
    hall.put(age=120)
    hall.look()
    seen, hall.rows[:] = [*hall.rows], []
    assert hall.look() is None
    hall.rows[:] = seen
    hall.look()
    assert hall.missed == [("t1", 1), ("t1", 1)]


def test_what_is_found_is_noted_as_seen(hall):
    hall.put(age=120)
    hall.answer = ActionResult(5, 6, "u", "then")
    hall.look()
    assert hall.noted == [("observed", "t1", 5, "then")] and not hall.missed
    hall.answer = ActionResult(0, 6)
    hall.look()
    assert hall.noted[1:] == [("observed", "t1", 6, "now")]


@pytest.mark.parametrize("status", [None, TokenStatus.OBSERVED])
def test_a_token_that_is_gone_or_seen_already_stays_as_it_is(hall, status):
    hall.put(age=120)
    hall.answer, hall.status = ActionResult(5), status
    hall.look()
    assert not hall.noted


def test_a_repository_that_is_not_watched_is_not_asked(hall):
    hall.put(age=120)
    hall.watched = False
    assert hall.look() is None and not hall.calls


def test_a_write_that_is_gone_or_no_longer_watched_is_left_alone(hall, monkeypatch):
    hall.put(age=120)
    asked = iter([hall, None])
    hall.reconciler._forges = lambda repo: next(asked, None)
    hall.look()
    assert not hall.calls and not hall.missed
    hall.reconciler._forges = lambda repo: hall
    monkeypatch.setattr(reconciler, "unobserved_write", lambda tx, found: None)
    hall.look()
    assert not hall.calls and not hall.missed


def test_a_thread_that_is_closed_to_us_is_a_look_in_vain(hall):
    hall.put(age=120)
    hall.answer = Forbidden("x", 403, "y")
    hall.look()
    assert hall.missed == [("t1", 1)]


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Unreachable("x", "y"), 120),
        (Unauthorized("x", 401, "y"), 120),
        (RateLimited("x", 403, FakeClock().now() + 9 * SECOND, "primary"), 9),
        (RateLimited("x", 403, FakeClock().now() + SECOND, "primary"), 2),
        (RateLimited("x", 403, FakeClock().now() + 2 * HOUR, "primary"), 3600),
    ],
)
def test_an_error_of_github_pauses_all_looks(hall, error, seconds):
    hall.put(age=150)
    hall.put("t2", age=140)
    hall.answer = error
    again = hall.look()
    assert again == hall.now() + seconds * SECOND
    assert len(hall.calls) == 1 and not hall.missed
    assert hall.look() == again and len(hall.calls) == 1
    hall.clock.advance(seconds)
    hall.answer = ActionResult(5)
    hall.look()
    assert [key for key, _ in hall.calls[1:]] == ["t1", "t2"]


def test_a_pause_of_a_clock_that_was_set_back_is_not_believed(hall):
    hall.put(age=150)
    hall.reconciler._paused_until = hall.now() + HOUR
    assert hall.look() == hall.now() + HOUR
    hall.reconciler._paused_until = hall.now() + HOUR + SECOND
    hall.look()
    assert len(hall.calls) == 1


def test_a_pause_that_is_over_is_forgotten(hall):
    hall.put(age=150)
    hall.reconciler._paused_until = hall.now()
    hall.look()
    hall.clock.jump(-60)
    hall.look()
    assert len(hall.calls) == 1 and hall.reconciler._paused_until is None


def test_each_write_has_its_own_looks_and_the_first_due_is_told(hall):
    hall.put("t1", age=200)
    hall.look()
    hall.put("t2", age=120)
    hall.put("t3", age=60)
    assert hall.look() == hall.now() + MINUTE
    assert hall.missed == [("t1", 1), ("t2", 1)]


def test_ten_are_looked_for_at_once(hall):
    for number in range(12):
        hall.put(f"t{number}", age=200 - number)
    hall.answer = ActionResult(5)
    assert hall.look() <= hall.now() and len(hall.calls) == 10


def test_the_first_look_is_a_patience_after_the_answer_or_after_now():
    assert first_lookup_at(NOW, NOW + SECOND, PATIENCE) == NOW + PATIENCE
    assert first_lookup_at(NOW + HOUR, NOW, PATIENCE) == NOW + PATIENCE
    assert [next_lookup_at(number, NOW, PATIENCE) for number in (1, 4, 5)] == [
        NOW + 4 * MINUTE,
        NOW + 32 * MINUTE,
        None,
    ]
