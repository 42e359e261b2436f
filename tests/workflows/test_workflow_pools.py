"""A provider's word about its limits closes its pool, with the row that says how a run ended."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import database

from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.verdict import DecidedBy, EndedBy, ProcessExit, RunVerdict
from hostler.clock import FakeClock
from hostler.governor.gates import LeaseDenied, LeaseGranted, LeaseRequest
from hostler.governor.holders import HostView
from hostler.governor.leases import acquire, preview
from hostler.governor.parking import closed_pools, park, resume
from hostler.governor.policy import Policy
from hostler.model import EPOCH, format_timestamp
from hostler.runs import NewRun, admit_run, transitions
from hostler.runs.outcome import Limit, ProviderSignals, RunEnding
from hostler.store.governor import Holder, find_lease
from hostler.workflows.manual_tasks import TaskSubmission, submit_task
from hostler.workflows.outcomes import MAX_PARK
from hostler.workflows.pool_signals import (
    MAX_LIVE_PARK,
    PARKING_OUTCOMES,
    apply_live_signals,
    closed_until,
    release_ended_run,
)

SCOPES = ("admission", "outbox", "tasks")
HERE = HostView(Holder("here", "boot", "space", 7, 70), 10**6, lambda _: True)
POLICY = Policy(memory_floor_mb=0)
HOUR = timedelta(hours=1)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    with database(clock) as opened:
        yield opened


def begin(store):
    """An agent at work."""
    with store.write(*SCOPES) as tx:
        task = submit_task(tx, TaskSubmission("yard", "job", "ann", cwd="/x"))
        run = admit_run(tx, NewRun(task.id, "yard", "work", "helper", "command", "openai"))
        assert isinstance(
            acquire(tx, LeaseRequest(run.run, "yard", "openai"), POLICY, HERE), LeaseGranted
        )
        return transitions.store_running(tx, transitions.store_starting(tx, run, {"pid": 1}))


def begin_behind(store):
    """An agent that was at work before its pool was closed."""
    with store.write(*SCOPES) as tx:
        task = submit_task(tx, TaskSubmission("yard", "job", "ann", cwd="/x"))
        run = admit_run(tx, NewRun(task.id, "yard", "work", "helper", "command", "openai"))
        return transitions.store_running(tx, transitions.store_starting(tx, run, {"pid": 1}))


def end(store, run, outcome, limit=None, *, stopped="", policy=POLICY):
    """It ends so, as its worker stores it."""
    if stopped:
        with store.write() as tx:
            transitions.request_stop(tx, run.run, stopped)
            run = transitions.read_current(tx, run)
    verdict = RunVerdict(outcome, DecidedBy.STREAM, "The window is spent.", limit=limit)
    with store.write("admission") as tx:
        run = transitions.store_exited(
            tx, run, RunEnding(verdict, ProcessExit(EndedBy.EXIT, 1), counted=True)
        )
        release_ended_run(tx, run, policy)
        assert find_lease(tx, run.run) is None


def told(*signals):
    """What a look at a stream found."""
    return ProviderSignals(limits=tuple(map(Limit, signals)))


def no_to(store, pool="openai"):
    with store.read() as tx:
        found = preview(tx, LeaseRequest("next", "barn", pool), POLICY, HERE)
    return found if isinstance(found, LeaseDenied) else None


@pytest.mark.parametrize("outcome", sorted(LIMIT_OUTCOMES))
@pytest.mark.parametrize("how", ["retry_after", "resets_at"])
def test_a_limit_with_a_time_closes_its_pool_until_then(store, clock, outcome, how):
    until = clock.now() + HOUR
    signal = LimitSignal(outcome, resets_at=format_timestamp(until))
    if how == "retry_after":
        signal = LimitSignal(outcome, retry_after_seconds=3600.0)
    end(store, begin(store), outcome, signal)
    no = no_to(store)
    assert (no.gate, no.opens_at) == ("parked", until)
    assert "The window is spent." in no.what and "hostler governor resume" in no.remedy
    # Pools know nothing of each other.
    assert no_to(store, "anthropic") is None
    clock.advance(3601)
    assert no_to(store) is None


def test_the_operator_opens_it_before_its_time(store):
    end(store, begin(store), Outcome.QUOTA, LimitSignal(Outcome.QUOTA, retry_after_seconds=3600.0))
    with store.write("admission") as tx:
        assert resume(tx, "openai")
    assert no_to(store) is None


def test_a_short_word_after_a_long_one_changes_nothing(store, clock):
    until = clock.now() + HOUR
    first, second = begin(store), begin(store)
    end(store, first, Outcome.QUOTA, LimitSignal(Outcome.QUOTA, resets_at=format_timestamp(until)))
    short = LimitSignal(Outcome.RATE_LIMITED, retry_after_seconds=1.0)
    end(store, second, Outcome.RATE_LIMITED, short)
    assert no_to(store).opens_at == until


@pytest.mark.parametrize(
    ("outcome", "limit"),
    [
        (Outcome.RATE_LIMITED, None),
        (Outcome.RATE_LIMITED, LimitSignal(Outcome.RATE_LIMITED)),
        # The program met a limit, and ended for another reason.
        (Outcome.CRASH, LimitSignal(Outcome.QUOTA, retry_after_seconds=3600.0)),
        (Outcome.SUCCESS, LimitSignal(Outcome.QUOTA, retry_after_seconds=3600.0)),
    ],
)
def test_without_a_time_or_a_limit_the_pool_stays_open(store, outcome, limit):
    end(store, begin(store), outcome, limit)
    assert no_to(store) is None


def test_a_run_that_was_stopped_says_nothing_about_its_provider(store):
    signal = LimitSignal(Outcome.QUOTA, retry_after_seconds=3600.0)
    end(store, begin(store), Outcome.QUOTA, signal, stopped="lunch")
    assert no_to(store) is None


@given(
    st.sampled_from(Outcome),
    st.floats(),
    st.text() | st.datetimes().map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S}Z"),
)
def test_no_word_closes_a_pool_backwards_or_for_ever(outcome, seconds, resets):
    now = EPOCH + timedelta(days=20_000)
    limit = LimitSignal(Outcome.QUOTA, retry_after_seconds=seconds, resets_at=resets)
    until = closed_until(RunVerdict(outcome, DecidedBy.STREAM, "", limit=limit), now)
    assert until is None or (outcome in PARKING_OUTCOMES and now < until <= now + MAX_PARK)


@pytest.mark.parametrize(
    ("outcome", "limit"),
    [
        (Outcome.AUTH, None),
        (Outcome.QUOTA, LimitSignal(Outcome.QUOTA, 400, person=True)),
    ],
)
def test_a_refused_key_and_an_unpaid_bill_wait_for_an_operator(store, clock, outcome, limit):
    end(store, begin(store), outcome, limit)
    clock.advance(86_400 * 100)
    with store.read() as tx:
        assert isinstance(
            preview(tx, LeaseRequest("r2", "yard", "openai"), POLICY, HERE), LeaseDenied
        )
    with store.write("admission") as tx:
        assert resume(tx, "openai")
        assert preview(tx, LeaseRequest("r2", "yard", "openai"), POLICY, HERE) is None


def test_a_wall_that_a_living_agent_met_closes_its_pool_at_once(store, clock):
    run = begin(store)
    until = format_timestamp(clock.now() + HOUR)
    with store.write("admission") as tx:
        apply_live_signals(tx, run, told(LimitSignal(Outcome.RATE_LIMITED, 429, 3600.0)), POLICY)
        assert closed_pools(tx) == frozenset()
        apply_live_signals(tx, run, told(LimitSignal(Outcome.QUOTA, 429, resets_at=until)), POLICY)
        assert closed_pools(tx) == {"openai"}
    clock.advance(MAX_LIVE_PARK.total_seconds() + 1)
    with store.read() as tx:
        assert closed_pools(tx) == frozenset()


def hear_live(store, run, *signals):
    with store.write("admission") as tx:
        apply_live_signals(tx, run, told(*signals), POLICY)


LIVE_WALL = LimitSignal(Outcome.QUOTA, 429, retry_after_seconds=86_400.0 * 31)
LIVE_BILL = LimitSignal(Outcome.QUOTA, 402, person=True)


@pytest.mark.parametrize("word", [LIVE_WALL, LIVE_BILL])
def test_the_word_of_a_living_agent_closes_for_a_while_and_again_when_said_again(
    store, clock, word
):
    run = begin(store)
    for _ in range(3):
        hear_live(store, run, word)
        assert no_to(store).opens_at == clock.now() + MAX_LIVE_PARK
        clock.advance(60)


@pytest.mark.parametrize("word", [LIVE_WALL, LIVE_BILL])
def test_a_run_that_ends_well_opens_what_it_alone_closed(store, word):
    run = begin(store)
    hear_live(store, run, word, word)
    hear_live(store, run, word)
    end(store, run, Outcome.SUCCESS)
    assert no_to(store) is None


@pytest.mark.parametrize("outcome", [Outcome.CRASH, Outcome.STALLED, Outcome.SERVER_ERROR])
def test_an_end_that_says_nothing_of_the_provider_opens_nothing(store, outcome):
    run = begin(store)
    hear_live(store, run, LIVE_WALL)
    end(store, run, outcome)
    assert no_to(store) is not None


def test_a_run_that_ends_well_before_a_wall_opens_nothing(store):
    run = begin(store)
    hear_live(store, run, LIVE_WALL)
    end(store, run, Outcome.SUCCESS, LIVE_WALL)
    assert no_to(store) is not None


@pytest.mark.parametrize("first", [True, False])
def test_what_others_say_too_stays_closed(store, first):
    one, other = begin(store), begin(store)
    hear_live(store, one if first else other, LIVE_WALL)
    hear_live(store, other if first else one, LIVE_WALL)
    end(store, one, Outcome.SUCCESS)
    assert no_to(store) is not None
    end(store, other, Outcome.SUCCESS)
    assert no_to(store) is not None


def test_what_an_operator_or_the_end_of_another_closed_stays_closed(store, clock):
    one, other = begin(store), begin(store)
    hear_live(store, one, LIVE_WALL)
    # Shorter than what is said already: the same closing, but not of one alone.
    end(store, other, Outcome.QUOTA, LimitSignal(Outcome.QUOTA, retry_after_seconds=60.0))
    end(store, one, Outcome.SUCCESS)
    assert no_to(store) is not None
    with store.write("admission") as tx:
        resume(tx, "openai")
        park(tx, "openai", clock.now() + HOUR, "By hand.")
    third = begin_behind(store)
    hear_live(store, third, LIVE_WALL)
    end(store, third, Outcome.SUCCESS)
    assert no_to(store).opens_at == clock.now() + HOUR


def test_the_end_of_a_run_closes_for_all_of_its_time(store, clock):
    run = begin(store)
    wall = LimitSignal(Outcome.QUOTA, 429, retry_after_seconds=3600.0)
    hear_live(store, run, wall)
    end(store, run, Outcome.QUOTA, wall)
    assert no_to(store).opens_at == clock.now() + HOUR


def test_a_closing_that_is_over_is_nobodys(store, clock):
    one, other = begin(store), begin(store)
    hear_live(store, one, LIVE_WALL)
    clock.advance(MAX_LIVE_PARK.total_seconds() + 1)
    hear_live(store, other, LIVE_WALL)
    end(store, other, Outcome.SUCCESS)
    assert no_to(store) is None


def test_a_wall_of_one_model_closes_nothing_for_others(store, clock):
    run = begin(store)
    wall = LimitSignal(
        Outcome.QUOTA, 429, resets_at=format_timestamp(clock.now() + HOUR), one_model=True
    )
    hear_live(store, run, wall)
    assert no_to(store) is None
    end(store, run, Outcome.QUOTA, wall)
    assert no_to(store) is None


@pytest.mark.parametrize("resets_at", ["", "tomorrow", "2006-01-01T00:00:00Z"])
def test_a_wall_without_a_time_is_tried_by_one_now_and_then(store, clock, resets_at):
    end(store, begin(store), Outcome.QUOTA, LimitSignal(Outcome.QUOTA, resets_at=resets_at))
    with store.read() as tx:
        assert closed_pools(tx) == {"openai"}
    clock.advance(3601)
    with store.read() as tx:
        assert closed_pools(tx) == frozenset()
