"""One call of a repository: reap, take up a finished poll, begin one that is due, enqueue."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import timedelta

import pytest

from hostler.clock import FakeClock
from hostler.errors import GitHubPollingError, RateLimited, ServerFailed, Unreachable
from hostler.forge.github.polling.poller import ScanResult
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName
from hostler.service.polling.orchestrator import (
    MAX_BACK_OFF_SECONDS,
    MAX_BUDGET_PAUSE_SECONDS,
    FinishedPoll,
    PollDeps,
    PollSchedule,
    RepoOrchestrator,
    back_off_seconds,
    own_budget_pause,
    poll_error_cause,
)
from hostler.service.polling.repo_poller import PollResult

INTERVAL = 40.0
DOWN = GitHubPollingError("alice/stable", "issues", ServerFailed("GET /x", 502))


class FakePoller:
    """Polls as a test says: `result` is returned, or raised if it is an exception."""

    watch = RepoPolicy(RepoName("alice", "stable"), "stable", frozenset())

    def __init__(self, clock, result=None, seconds=0.0, stretch=1.0):
        self.clock, self.result, self.seconds = clock, result or PollResult(), seconds
        self._stretch = stretch

    def poll(self):
        self.clock.advance(self.seconds)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def stretch(self):
        return self._stretch


class PollFixture:
    """One repository, and everything that it calls, in order."""

    def __init__(self, schedule=None, **poller):
        self.clock, self.calls, self.futures, self.slow = FakeClock(), [], [], []
        self.clock.advance(1000.0)
        self.poller = FakePoller(self.clock, **poller)
        poll_deps = PollDeps(
            self, lambda: self.calls.append("wake"), lambda: self.calls.append("enqueue")
        )
        self.repo = RepoOrchestrator(
            self.poller, schedule or PollSchedule(INTERVAL), poll_deps, self.clock
        )

    def reap(self, project):
        self.calls.append(f"reap {project}")
        return 0

    def submit_poll(self, act, *, slow):
        self.calls.append("begin")
        self.slow.append(slow)
        self.futures.append((Future(), act))
        return self.futures[-1][0]

    def poll(self, **given):
        return self.repo.poll_once(self, **given)

    def work(self):
        """Let the poll under way come to its end."""
        future, act = self.futures.pop(0)
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    def whole_poll(self):
        self.poll()
        self.work()
        return self.poll()


def test_a_call_reaps_first_then_begins_a_poll_then_enqueues():
    fixture = PollFixture()
    assert fixture.poll() is None
    assert fixture.calls == ["reap stable", "begin", "enqueue"]


def test_a_call_that_may_not_enqueue_reaps_and_polls_all_the_same():
    fixture = PollFixture()
    fixture.poll(allow_enqueue=False)
    assert fixture.calls == ["reap stable", "begin"]


def test_a_poll_under_way_is_not_begun_again_however_late_it_is():
    fixture = PollFixture()
    fixture.poll()
    fixture.clock.advance(10 * INTERVAL)
    fixture.repo.poll_soon()
    assert fixture.poll() is None
    assert fixture.calls.count("begin") == 1
    assert fixture.repo.seconds_left() is None and not fixture.repo.can_poll()


def test_a_finished_poll_wakes_the_service_and_is_taken_up_once():
    fixture = PollFixture()
    fixture.poll()
    assert "wake" not in fixture.calls
    fixture.work()
    assert fixture.calls.count("wake") == 1 and fixture.repo.finished_polls == 0
    over = fixture.poll()
    assert (over.project, over.watch, over.found) == (
        "stable",
        FakePoller.watch,
        fixture.poller.result,
    )
    assert over.error is None and over.failures == 0 and not over.held
    assert fixture.repo.finished_polls == 1 and fixture.poll() is None


def test_the_next_poll_is_due_one_interval_after_the_last_began():
    fixture = PollFixture(seconds=10.0)
    assert fixture.repo.seconds_left() == 0.0 and fixture.repo.can_poll()
    fixture.whole_poll()
    assert fixture.repo.seconds_left() == INTERVAL - 10.0
    fixture.clock.advance(INTERVAL - 10.5)
    fixture.poll()
    assert fixture.calls.count("begin") == 1 and not fixture.repo.can_poll()
    fixture.clock.advance(0.5)
    assert fixture.repo.can_poll()
    fixture.poll()
    assert fixture.calls.count("begin") == 2


def test_after_a_poll_that_took_most_of_the_interval_a_quarter_of_it_is_left_free():
    fixture = PollFixture(seconds=35.0)
    fixture.whole_poll()
    assert fixture.repo.seconds_left() == INTERVAL / 4


def test_a_tight_budget_stretches_the_interval_and_its_pause():
    fixture = PollFixture(seconds=10.0, stretch=3.0)
    fixture.whole_poll()
    assert fixture.repo.seconds_left() == 3 * INTERVAL - 10.0
    fixture = PollFixture(seconds=115.0, stretch=3.0)
    fixture.whole_poll()
    assert fixture.repo.seconds_left() == 3 * INTERVAL / 4


def test_a_wish_brings_the_next_poll_forward_once():
    fixture = PollFixture()
    fixture.whole_poll()
    fixture.repo.poll_soon()
    assert fixture.repo.seconds_left() == 0.0
    fixture.whole_poll()
    assert fixture.calls.count("begin") == 2 and fixture.repo.seconds_left() == INTERVAL


def test_by_turns_only_a_wish_begins_a_poll():
    fixture = PollFixture(PollSchedule(INTERVAL, round_robin=True))
    fixture.clock.advance(10 * INTERVAL)
    fixture.poll()
    assert "begin" not in fixture.calls and fixture.repo.seconds_left() is None
    assert fixture.repo.waiting() == 0.0 and fixture.repo.can_poll()
    fixture.repo.poll_soon()
    fixture.poll()
    assert fixture.calls.count("begin") == 1


def test_by_turns_a_repository_can_be_polled_again_at_once():
    fixture = PollFixture(PollSchedule(INTERVAL, round_robin=True), seconds=5.0)
    fixture.repo.poll_soon()
    fixture.whole_poll()
    assert fixture.repo.can_poll()


def test_what_is_due_just_now_waits_for_no_time_and_is_never_overdue_by_less_than_none():
    fixture = PollFixture()
    assert fixture.repo.waiting() == 0.0 and not fixture.repo.is_incomplete
    assert fixture.whole_poll().lag == 0.0
    fixture.clock.advance(INTERVAL + 5.0)
    assert fixture.repo.seconds_left() == 0.0 and fixture.repo.waiting() == 5.0
    assert FinishedPoll("stable", FakePoller.watch, None).lag == 0.0


def test_by_turns_a_poll_is_late_from_its_call_on():
    fixture = PollFixture(PollSchedule(INTERVAL, round_robin=True))
    fixture.repo.poll_soon()
    fixture.whole_poll()
    fixture.clock.advance(50.0)
    fixture.repo.poll_soon()
    fixture.clock.advance(3.0)
    assert fixture.repo.waiting() == 3.0
    fixture.poll()
    fixture.clock.advance(1.0)
    assert fixture.repo.waiting() == 4.0
    fixture.work()
    assert fixture.poll().lag == 4.0


def test_a_poll_waits_since_it_was_due_or_wanted_whichever_was_first():
    fixture = PollFixture()
    fixture.clock.advance(3.0)
    assert fixture.repo.waiting() == 3.0
    fixture.repo.poll_soon()
    fixture.clock.advance(1.0)
    assert fixture.repo.waiting() == 4.0
    fixture.poll()
    fixture.clock.advance(2.0)
    assert fixture.repo.waiting() == 6.0
    fixture.work()
    assert fixture.poll().lag == 6.0
    assert fixture.repo.waiting() == 0.0
    fixture.clock.advance(1.0)
    fixture.repo.poll_soon()
    fixture.clock.advance(2.0)
    fixture.repo.poll_soon()
    assert fixture.repo.waiting() == 2.0


@pytest.mark.parametrize(("seconds", "slow"), [(5.0, False), (5.5, True)])
def test_a_poll_that_took_more_than_five_seconds_is_slow_the_next_time(seconds, slow):
    fixture = PollFixture(seconds=seconds)
    fixture.whole_poll()
    fixture.clock.advance(INTERVAL)
    fixture.poll()
    assert fixture.slow == [False, slow]


def test_failed_polls_are_counted_and_made_later_each_time():
    fixture = PollFixture(result=PollResult(error=DOWN))
    pauses, failures = [], []
    for _ in range(6):
        over = fixture.whole_poll()
        failures.append(over.failures)
        pauses.append(fixture.repo.seconds_left())
        assert over.error is DOWN and over.found is fixture.poller.result and not over.held
        fixture.clock.advance(fixture.repo.seconds_left())
    assert failures == [1, 2, 3, 4, 5, 6]
    assert pauses == [40.0, 80.0, 160.0, 320.0, 600.0, 600.0]
    assert fixture.repo.is_incomplete and fixture.slow == [False, *[True] * 5]


def test_one_good_poll_ends_the_count_of_failures():
    fixture = PollFixture(result=PollResult(error=DOWN))
    fixture.whole_poll()
    fixture.clock.advance(INTERVAL)
    fixture.poller.result = PollResult()
    fixture.whole_poll()
    assert not fixture.repo.is_incomplete and fixture.repo.seconds_left() == INTERVAL
    fixture.clock.advance(INTERVAL)
    fixture.poller.result = PollResult(error=DOWN)
    assert fixture.whole_poll().failures == 1


def test_a_poll_that_saw_a_part_is_repeated_after_one_interval_and_counts_as_failed():
    partly = PollResult(ScanResult(error=DOWN), error=DOWN)
    fixture = PollFixture(result=partly)
    for number in (1, 2, 3):
        over = fixture.whole_poll()
        assert over.failures == number and over.found is partly
        assert fixture.repo.is_incomplete and fixture.repo.seconds_left() == INTERVAL
        fixture.clock.advance(INTERVAL)
    # It is not slow: only one list of it failed.
    assert fixture.slow == [False] * 3


def test_a_stretched_interval_is_doubled_too():
    fixture = PollFixture(result=PollResult(error=DOWN), stretch=2.0)
    fixture.whole_poll()
    assert fixture.repo.seconds_left() == 2 * INTERVAL


def test_an_exception_of_a_poll_is_a_failure_without_findings():
    error = Unreachable("GET /x", "no route")
    fixture = PollFixture(result=error)
    over = fixture.whole_poll()
    assert over.found is None and over.error is error and over.failures == 1


def test_what_is_no_exception_of_a_program_ends_the_call():
    fixture = PollFixture(result=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fixture.whole_poll()


def test_a_poll_that_our_budget_cut_short_is_held_and_no_failure():
    fixture = PollFixture()
    refused = RateLimited("GET /x", 0, fixture.clock.now() + timedelta(seconds=70), "secondary")
    fixture.poller.result = PollResult(error=refused)
    over = fixture.whole_poll()
    assert over.held and over.failures == 0 and over.error is refused
    assert over.found is fixture.poller.result
    assert fixture.repo.is_incomplete and fixture.repo.seconds_left() == 70.0
    fixture.clock.advance(70.0)
    fixture.poller.result = PollResult(error=DOWN)
    over = fixture.whole_poll()
    assert not over.held and over.failures == 1
    fixture.clock.advance(INTERVAL)
    fixture.poller.result = PollResult()
    fixture.whole_poll()
    assert not fixture.repo.is_incomplete


def test_a_failure_after_a_held_poll_is_no_hold():
    fixture = PollFixture()
    refused = RateLimited("GET /x", 0, fixture.clock.now() + timedelta(seconds=70), "secondary")
    fixture.poller.result = PollResult(error=refused)
    fixture.whole_poll()
    fixture.clock.advance(70.0)
    fixture.poller.result = PollResult(ScanResult(error=DOWN), error=DOWN)
    fixture.whole_poll()
    fixture.repo._failures = 0
    assert not fixture.repo.is_incomplete


def successor(fixture, watch=None):
    """The orchestrator of the same repository by new settings."""
    poller = FakePoller(fixture.clock)
    if watch is not None:
        poller.watch = watch
    woken = []
    poll_deps = PollDeps(fixture, lambda: woken.append("wake"), lambda: None)
    made = RepoOrchestrator(poller, PollSchedule(INTERVAL), poll_deps, fixture.clock)
    made.take_over_from(fixture.repo)
    return made, woken


def test_a_successor_takes_over_the_poll_under_way_and_hears_of_its_end():
    fixture = PollFixture(seconds=6.0)
    fixture.clock.advance(2.0)
    fixture.poll()
    made, woken = successor(fixture)
    assert made.seconds_left() is None and made.waiting() == 0.0 + 2.0
    fixture.work()
    assert woken == ["wake"]
    over = made.poll_once(fixture)
    assert over.lag == 8.0 and made.finished_polls == 1
    assert made.seconds_left() == INTERVAL - 6.0
    fixture.clock.advance(INTERVAL)
    made.poll_once(fixture)
    assert fixture.slow == [False, True]


def test_a_successor_keeps_the_rhythm_the_wishes_and_the_failures():
    fixture = PollFixture(result=PollResult(error=DOWN))
    fixture.whole_poll()
    fixture.clock.advance(10.0)
    made, woken = successor(fixture)
    assert (
        made.seconds_left() == 30.0
        and made.is_incomplete
        and made.finished_polls == 1
        and not woken
    )
    fixture.repo.poll_soon()
    made, _ = successor(fixture)
    assert made.seconds_left() == 0.0


def test_a_successor_that_watches_something_else_begins_at_once():
    fixture = PollFixture()
    fixture.whole_poll()
    other = RepoPolicy(RepoName("alice", "stable"), "stable", frozenset({"bob"}))
    made, _ = successor(fixture, other)
    assert made.seconds_left() == 0.0 and made.finished_polls == 1
    held = PollFixture()
    refused = RateLimited("GET /x", 0, held.clock.now() + timedelta(seconds=70), "secondary")
    held.poller.result = PollResult(error=refused)
    held.whole_poll()
    assert successor(held, other)[0].is_incomplete


def test_a_pause_doubles_up_to_ten_minutes_or_a_longer_interval():
    now = FakeClock().now()
    assert [back_off_seconds(30.0, n, DOWN, now) for n in (1, 2, 3, 5, 6, 99)] == [
        *(30.0, 60.0, 120.0, 480.0),
        *(MAX_BACK_OFF_SECONDS, MAX_BACK_OFF_SECONDS),
    ]
    assert back_off_seconds(900.0, 1, DOWN, now) == 900.0 == back_off_seconds(900.0, 9, DOWN, now)
    assert MAX_BACK_OFF_SECONDS == 600.0
    # A number that no float holds is none of ours either.
    assert back_off_seconds(1e-9, 10_000, DOWN, now) == 1e-9 * 2**30


def test_a_pause_is_as_long_as_github_says_if_that_is_longer():
    now = FakeClock().now()
    until = RateLimited("GET /x", 403, now + timedelta(seconds=900), "primary")
    assert back_off_seconds(30.0, 1, until, now) == 900.0
    soon = RateLimited("GET /x", 403, now + timedelta(seconds=5), "primary")
    assert back_off_seconds(30.0, 1, soon, now) == 30.0
    foreign = ValueError()
    foreign.until = now + timedelta(seconds=900)
    assert back_off_seconds(30.0, 1, foreign, now) == 30.0
    told = ServerFailed("GET /x", 502)
    told.until = "soon"
    assert back_off_seconds(30.0, 1, told, now) == 30.0


@pytest.mark.parametrize(
    ("seconds", "pause"),
    [
        (-5, 1.0),
        (1, 1.0),
        (1.5, 1.5),
        (3600, 3600.0),
        (3601, MAX_BUDGET_PAUSE_SECONDS),
        (9e4, 3600.0),
    ],
)
def test_our_own_budget_holds_a_poll_back_for_a_second_to_an_hour(seconds, pause):
    now = FakeClock().now()
    refused = RateLimited("GET /x", 0, now + timedelta(seconds=seconds), "secondary")
    assert own_budget_pause(refused, now) == pause
    assert own_budget_pause(GitHubPollingError("a/b", "issues", refused), now) == pause


def test_what_github_refused_or_failed_is_no_hold_of_ours():
    now = FakeClock().now()
    assert (
        own_budget_pause(RateLimited("GET /x", 403, now + timedelta(seconds=9), "primary"), now)
        is None
    )
    assert own_budget_pause(DOWN, now) is None and own_budget_pause(ValueError(), now) is None


def test_the_cause_of_a_failed_poll_is_what_lies_behind_it():
    assert poll_error_cause(DOWN) is DOWN.cause
    plain = ValueError()
    assert poll_error_cause(plain) is plain
