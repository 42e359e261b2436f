"""What is noted of pools and looks, what is wanted of a day, and when a task may start."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import database
from why_stage import Stage

from hostler.clock import FakeClock
from hostler.errors import GitHubPollingError, ServerFailed
from hostler.governor.gates import UNTIL_RESUMED
from hostler.governor.gates import Gate as GovernorGate
from hostler.governor.parking import park
from hostler.governor.policy import Policy
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName, format_timestamp
from hostler.service.polling.orchestrator import PollDeps, PollSchedule, RepoOrchestrator
from hostler.service.polling.repo_poller import PollResult
from hostler.service.scheduling.gates import HomeGate
from hostler.service.scheduling.maintenance import (
    MAX_SAMPLE_AGE,
    PollCounter,
    StatusRecorder,
    select_new_samples,
)
from hostler.service.snapshot.history import (
    HistoryWindow,
    PastActivity,
    PollLag,
    RunStats,
    measure_objectives,
    percentile,
)
from hostler.service.snapshot.queue import (
    POOL_GATES,
    BusyAgent,
    ExpectedStart,
    PoolCapacity,
    WaitingTask,
    estimate_starts,
)
from hostler.store.governor import PoolSample, samples_since
from hostler.store.outbox import Delivery
from hostler.store.repositories import Polls, polls_since
from hostler.store.runs import Ended

NOW = datetime(2026, 3, 1, tzinfo=UTC)

# -- when a task may start ---------------------------------------------------------------------

POOLS = st.sampled_from(["p", "q"])
PROJECTS = st.sampled_from(["barn", "yard"])
GATES = st.sampled_from([None, HomeGate.WORKERS, HomeGate.PAUSED, *GovernorGate])
UNTIL = st.none() | st.integers(-50, 5000).map(lambda s: NOW + timedelta(seconds=s))
OVER = st.integers(0, 3)
QUEUE = st.lists(st.builds(WaitingTask, PROJECTS, POOLS, GATES, UNTIL, OVER), max_size=12)
BUSY = st.lists(st.builds(BusyAgent, PROJECTS, POOLS, st.floats(0, 5000)), max_size=6)
USUAL = st.dictionaries(POOLS, st.floats(1, 3000))
ROOMS = st.dictionaries(POOLS, st.builds(PoolCapacity, st.integers(-3, 3), st.floats(0, 60)))


@given(QUEUE, BUSY, USUAL, ROOMS)
def test_nobody_starts_before_a_gate_opens_and_only_the_first_is_sure(queue, busy, usual, rooms):
    found = estimate_starts(queue, busy, usual, rooms, NOW)
    assert len(found) == len(queue)
    for at, (one, expected) in enumerate(zip(queue, found, strict=True)):
        if one.gate is None:
            assert expected == ExpectedStart(NOW, about=False)
        elif expected is not None:
            assert expected.at >= max(one.until or NOW, NOW)
            first = one.pool not in {before.pool for before in queue[:at]}
            assert expected.about or (first and expected.at == max(one.until, NOW))


@given(QUEUE, BUSY, USUAL, ROOMS)
def test_who_stands_behind_in_a_closed_or_full_pool_does_not_start_before(
    queue, busy, usual, rooms
):
    found = estimate_starts(queue, busy, usual, rooms, NOW)
    for pool in ("p", "q"):
        starts = [
            expected.at
            for one, expected in zip(queue, found, strict=True)
            if one.pool == pool and one.gate in POOL_GATES and expected
        ]
        distance = timedelta(seconds=rooms.get(pool, PoolCapacity()).interval)
        for before, after in pairwise(starts):
            assert after - before >= distance - timedelta(milliseconds=1)


@given(st.integers(1, 12), BUSY, USUAL, st.integers(-3, 0))
def test_a_start_is_expected_where_enough_will_leave(waiting, busy, usual, free):
    queue = [WaitingTask("barn", "p", GovernorGate.CAP)] * waiting
    found = estimate_starts(queue, busy, usual, {"p": PoolCapacity(free)}, NOW)
    enough = sum(one.pool == "p" for one in busy) > -free and "p" in usual
    assert len([one for one in found if one]) == (waiting if enough else 0)


def seconds(found):
    return [one and (one.at - NOW).total_seconds() for one in found]


def test_the_second_in_line_waits_for_the_second_place():
    queue = [WaitingTask("barn", "p", GovernorGate.CAP)] * 3
    busy = [
        BusyAgent("barn", "p", 40.0),
        BusyAgent("yard", "p", 200.0),
        BusyAgent("yard", "q", 99.0),
    ]
    found = estimate_starts(queue, busy, {"p": 100.0, "q": 100.0}, {}, NOW)
    assert seconds(found) == [50.0, 60.0, 150.0]


def test_with_more_at_work_than_allowed_they_leave_first_and_one_starts_at_a_time():
    busy = [
        BusyAgent("barn", "p", 96.0),
        BusyAgent("barn", "p", 95.0),
        BusyAgent("yard", "p", 60.0),
    ]
    queue = [WaitingTask("barn", "p", GovernorGate.CAP, over=2)] * 3
    found = estimate_starts(queue, busy, {"p": 100.0}, {"p": PoolCapacity(-2)}, NOW)
    assert seconds(found) == [40.0, 140.0, 240.0]
    machine = [WaitingTask("barn", "q", GovernorGate.MACHINE, over=1)] * 2
    assert seconds(estimate_starts(machine, busy, {"p": 100.0}, {}, NOW)) == [24.0, 40.0]


def test_a_share_waits_for_the_places_of_its_project():
    busy = [BusyAgent("yard", "p", 90.0), BusyAgent("barn", "p", 40.0)]
    queue = [WaitingTask("barn", "p", GovernorGate.SHARE)]
    assert seconds(estimate_starts(queue, busy, {"p": 100.0}, {"p": PoolCapacity(3)}, NOW)) == [
        60.0
    ]


def test_a_turn_of_a_project_is_for_its_first_task():
    queue = [WaitingTask("barn", "p", GovernorGate.SHARE, NOW + timedelta(seconds=30))] * 2
    found = estimate_starts(queue, [BusyAgent("barn", "p", 40.0)], {"p": 100.0}, {}, NOW)
    assert seconds(found) == [30.0, 60.0]
    assert [one.about for one in found] == [False, True]


MINUTE = NOW + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("gate", "room", "expected"),
    [
        (GovernorGate.SPACING, PoolCapacity(8, 5.0), [60.0, 65.0, 70.0]),
        (GovernorGate.PARKED, PoolCapacity(2), [60.0, 60.0, 90.0]),
        (GovernorGate.LIMIT, PoolCapacity(0), [90.0, 190.0, 290.0]),
        (GovernorGate.BREAKER, PoolCapacity(8), [60.0, None, None]),
    ],
)
def test_behind_the_first_of_a_closed_pool_everything_is_an_estimate(gate, room, expected):
    queue = [WaitingTask("barn", "p", gate, MINUTE)] * 3
    found = estimate_starts(queue, [BusyAgent("barn", "p", 10.0)], {"p": 100.0}, {"p": room}, NOW)
    assert seconds(found) == expected
    told = [one.about for one in found if one]
    assert told == [room.free <= 0, *[True] * (len(told) - 1)]


def test_of_a_pool_that_an_operator_closed_nothing_is_known():
    queue = [WaitingTask("barn", "p", GovernorGate.PARKED)]
    assert estimate_starts(queue, [], {"p": 9.0}, {"p": PoolCapacity(3)}, NOW) == [None]


@pytest.mark.parametrize("gate", [HomeGate.PAUSED, HomeGate.DEPENDENCIES, GovernorGate.MEMORY])
def test_where_nobody_can_guess_nothing_is_said(gate):
    queue = [WaitingTask("barn", "p", gate)]
    assert estimate_starts(queue, [BusyAgent("barn", "p", 1)], {"p": 9}, {}, NOW) == [None]


# -- what is wanted of a day -------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_one_of_them_and_few_exceed_it(values, part):
    found = percentile(values, part)
    assert found in values
    assert sum(one <= found for one in values) >= part * len(values)
    assert sum(one < found for one in values) < max(part * len(values), 1)


def past(day=None, ended=(), sent=()):
    return PastActivity({"24h": HistoryWindow({}, day or RunStats())}, ended, sent)


def test_of_an_empty_day_nothing_is_known():
    found = measure_objectives([], past(), NOW)
    assert [(one.value, one.met, one.of) for one in found] == [(None, None, 0)] * 4


LOOKS = st.integers(0, 99)


@given(st.lists(st.tuples(LOOKS, LOOKS, LOOKS), max_size=4), LOOKS, LOOKS)
def test_shares_are_between_none_and_all_and_met_by_their_target(looks, good, failed):
    lags = [PollLag(Polls(sum(one), one[1], one[2]), NOW) for one in looks]
    polls, _, runs, _ = measure_objectives(lags, past(RunStats(good + failed, failed)), NOW)
    for one, of, well in (
        (polls, sum(map(sum, looks)), sum(one[0] for one in looks)),
        (runs, good + failed, good),
    ):
        assert one.of == of and one.value == (well / of if of else None)
        assert one.met is (None if not of else well / of >= one.target)


@pytest.mark.parametrize(("failed", "met"), [(10, True), (11, False)])
def test_nine_in_ten_agents_shall_end_well(failed, met):
    assert measure_objectives([], past(RunStats(100, failed)), NOW)[2].met is met


def test_starts_and_writes_of_the_last_day_alone_count():
    def at(hours, seconds=0):
        return format_timestamp(NOW - timedelta(hours=hours) + timedelta(seconds=seconds))

    ended = [Ended("p", at(2), at(2, 20), at(1)), Ended("p", at(30), at(29), at(28))]
    sent = [Delivery(at(1), at(1, 61)), Delivery(at(25), at(1))]
    _, starts, _, writes = measure_objectives([], past(ended=ended, sent=sent), NOW)
    assert (starts.value, starts.of, starts.met) == (20.0, 1, True)
    assert (writes.value, writes.of, writes.met) == (61.0, 1, False)


# -- looks, counted ----------------------------------------------------------------------------


class Looker:
    """Looks take as long as a test says."""

    watch = RepoPolicy(RepoName("alice", "stable"), "stable", frozenset())

    def __init__(self):
        self.result = PollResult()

    def poll(self):
        return self.result

    def stretch(self):
        return 1.0


class Threads:
    """Take up looks when a test says so."""

    def __init__(self):
        self.waiting = []

    def submit_poll(self, act, *, slow):
        self.waiting.append((Future(), act))
        return self.waiting[-1][0]

    def reap(self, project):
        return 0

    def work(self):
        future, act = self.waiting.pop()
        future.set_result(act())


class Yard:
    """One repository that is looked at every 30 s, and the book of its looks."""

    def __init__(self, *, round_robin=False):
        self.clock, self.threads, self.poller = FakeClock(), Threads(), Looker()
        poll_deps = PollDeps(self.threads, lambda: None, lambda: None)
        self.repo = RepoOrchestrator(
            self.poller, PollSchedule(30.0, round_robin), poll_deps, self.clock
        )
        self.book = PollCounter(self.clock)

    def turn(self):
        look = self.repo.poll_once(self.threads)
        if look is not None:
            self.book.note(look, self.repo.schedule.interval)
        return look

    def look(self, seconds=0.0):
        self.turn()
        self.clock.advance(seconds)
        self.threads.work()
        return self.turn()

    def take(self):
        return self.book.take([self.repo]).get("stable")


def test_a_look_is_as_late_as_it_is_over_after_it_was_due():
    yard = Yard()
    assert yard.look(2.0).lag == 2.0
    yard.clock.advance(28.0 + 5.0)
    assert yard.look(4.0).lag == 9.0
    found = yard.take()
    assert (found.polls, found.late, found.failed) == (2, 0, 0)
    assert (found.lag_seconds, found.worst_seconds, found.last_seconds) == (11.0, 9.0, 9.0)
    assert found.last_at == format_timestamp(yard.clock.now()) and yard.take() is None


def test_one_who_is_called_is_late_from_the_call_on():
    yard = Yard(round_robin=True)
    yard.turn()
    assert not yard.threads.waiting and yard.repo.waiting() == 0
    yard.repo.poll_soon()
    yard.clock.advance(3.0)
    yard.repo.poll_soon()
    assert yard.repo.waiting() == 3.0
    assert yard.look(1.0).lag == 4.0


def test_late_and_failed_looks_are_counted_as_such():
    yard = Yard()
    yard.look(31.0)
    yard.poller.result = PollResult(
        error=GitHubPollingError("a/b", "issues", ServerFailed("GET /x", 502))
    )
    yard.clock.advance(600)
    yard.look()
    found = yard.take()
    assert (found.polls, found.late, found.failed) == (2, 1, 1)


def test_a_look_that_hangs_is_told_while_it_does():
    yard = Yard()
    yard.turn()
    yard.clock.advance(30.0)
    assert yard.take() is None
    begun = yard.clock.now() - timedelta(seconds=30)
    yard.clock.advance(1.0)
    assert yard.take() == Polls(late_since=format_timestamp(begun))
    yard.threads.work()
    yard.turn()
    assert yard.take().late_since == "" and yard.take() is None


# -- pools, written down -----------------------------------------------------------------------

SAMPLES = st.lists(
    st.builds(
        PoolSample,
        st.sampled_from(["p", "q"]),
        st.just("later"),
        st.just(8),
        st.integers(0, 2),
        st.integers(0, 1),
        st.sampled_from(["closed", "open"]),
        st.booleans(),
    ),
    max_size=4,
    unique_by=lambda one: one.pool,
)


@given(SAMPLES, SAMPLES)
def test_only_what_is_new_is_kept(seen, recent):
    kept = select_new_samples(seen, [replace(one, at="earlier") for one in recent])
    assert set(kept) == set(seen) - set(recent)
    assert select_new_samples(seen, seen) == []


class Fixed:
    """Caps that stay."""

    def __init__(self):
        self.policy = Policy(caps={"p": 3}, memory_floor_mb=0)

    def current(self):
        return self.policy


def test_pools_are_noted_when_they_change_and_now_and_then():
    clock = FakeClock()
    with database(clock) as store:
        stage, caps = Stage(store, clock), Fixed()
        recorder = StatusRecorder(store, caps)

        def seen():
            with store.read() as tx:
                return [one for one in samples_since(tx, "") if one.pool == "p"]

        recorder.record({})
        clock.advance(60)
        recorder.record({})
        assert [(one.cap, one.ceiling, one.active) for one in seen()] == [(3, 3, 0)]
        stage.start(stage.put())
        with store.write("admission") as tx:
            park(tx, "p", UNTIL_RESUMED, "holidays")
        recorder.record({"barn": Polls(1)})
        assert [(one.active, one.parked) for one in seen()] == [(0, False), (1, True)]
        clock.advance(MAX_SAMPLE_AGE.total_seconds() + 1)
        mark = store.change_mark()
        recorder.record({})
        assert len(seen()) == 3 and store.change_mark() != mark
        mark = store.change_mark()
        recorder.record({})
        assert store.change_mark() == mark
        with store.read() as tx:
            assert polls_since(tx, "")["barn"].polls == 1
