"""Recorded streams of real programs move the pool of their provider as they should."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from intake_yard import database
from recordings import Recording, as_bytes, recording, recordings, verdict_on

from hostler.agents.adapters.registry import KINDS
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.verdict import ProcessExit
from hostler.clock import FakeClock
from hostler.governor.adaptive.controller import adaptive_pool, read_pool, reset
from hostler.governor.adaptive.model import BreakerState, LeaseSlot, PoolConfig, PoolLoad
from hostler.governor.adaptive.served import PAUSE
from hostler.governor.gates import UNTIL_RESUMED
from hostler.governor.parking import active_parking, resume
from hostler.governor.policy import Policy
from hostler.runs import NewRun, admit_run, transitions
from hostler.runs.outcome import RunEnding, StreamReader
from hostler.store.governor import find_pool_state, parked_pool
from hostler.workflows.outcomes import MAX_TASK_PARK
from hostler.workflows.pool_signals import plan_signals, release_ended_run

POOL, CAP = "anthropic", 8
# When they were recorded.
THEN = datetime(2026, 11, 15, 20, tzinfo=UTC)
CONGESTED = LIMIT_OUTCOMES - {Outcome.QUOTA}
WALLS = {Outcome.QUOTA, Outcome.AUTH}


def adaptive(policy: str) -> Policy:
    config = PoolConfig(
        adaptive=True, policy=policy, hard_max=16, min_dispatch_interval_seconds=0.0
    )
    return Policy(default_cap=CAP, tuned={POOL: config})


AIMD, SERVED = adaptive("aimd"), adaptive("served")


def judged(*outcomes):
    """All recordings that are judged so."""
    found = [one for one in recordings() if Outcome(one.judged) in outcomes]
    assert found
    return found


@pytest.fixture
def clock():
    return FakeClock(THEN)


@pytest.fixture
def store(clock):
    with database(clock) as opened:
        yield opened


class Pool:
    """A pool before which recorded programs are played, as their worker would hear them."""

    def __init__(self, store, clock, folder, policy):
        self.store, self.clock, self.folder, self.policy = store, clock, folder, policy

    def looked_at(self) -> Pool:
        """Its first window has begun."""
        with self.store.write("admission") as tx:
            read_pool(tx, self.policy, POOL)
        return self

    def window_passes(self) -> None:
        """Its first window is over, and others look at it as a service does."""
        for _ in range(13):
            self.clock.advance(5)
            self.looked_at()

    def play_first(self, one: Recording) -> None:
        """Play it before a pool of which nothing is known."""
        with self.store.write("admission") as tx:
            reset(tx, POOL)
            resume(tx, POOL)
        self.play(one, one.full_name)

    def play(self, one: Recording, task: str = "t1") -> None:
        run = self.begin(one, task)
        for stream in ("stdout", "stderr"):
            (self.folder / stream).write_bytes(as_bytes(getattr(one, stream)))
        reader = StreamReader(run, self.folder, self.clock)
        reader.read()
        run = self.look(run, reader)
        reader.read_rest()
        self._end(run, reader, one)

    def look(self, run, reader):
        """One look of its worker: what was heard is stored with the offset."""
        signals = reader.signals
        with self.store.write("admission") as tx:
            run = transitions.store_progress(tx, run, reader.tally, reader.offsets, signals.limits)
            if plan := plan_signals(run, signals, self.policy):
                plan.apply(tx, run)
        reader.mark_stored()
        return run

    def begin(self, one, task):
        with self.store.write("admission") as tx:
            run = admit_run(tx, NewRun(task, "yard", "work", "helper", one.cli, POOL))
            return transitions.store_running(tx, transitions.store_starting(tx, run, {"pid": 1}))

    def _end(self, run, reader, one):
        verdict = verdict_on(one).verdict
        told = (
            reader.limits,
            reader.final_limits,
            reader.signals.headrooms,
            reader.signals.responses,
        )
        exit = ProcessExit(one.ended_by, one.exit_code)
        ending = RunEnding(verdict, exit, True, reader.tally, reader.offsets, *told)
        with self.store.write("admission") as tx:
            run = transitions.store_exited(tx, run, ending)
            if plan := plan_signals(run, ending.provider_signals(run), self.policy):
                plan.apply(tx, run)
            release_ended_run(tx, run, self.policy)
            transitions.store_ended(tx, transitions.store_finishing(tx, run))

    @property
    def known(self):
        config = self.policy.pool_config(POOL)
        with self.store.read() as tx:
            return adaptive_pool(config, find_pool_state(tx, POOL), tx.now(), PoolLoad(0, True))

    @property
    def parked(self):
        with self.store.read() as tx:
            return active_parking(parked_pool(tx, POOL), tx.now())


@pytest.fixture
def pool(store, clock, tmp_path):
    return lambda policy=AIMD: Pool(store, clock, tmp_path, policy)


def test_a_death_by_a_429_or_an_overload_lowers_the_cap_and_parks_nothing(pool):
    stable = pool()
    for one in judged(*CONGESTED):
        stable.play_first(one)
        assert (stable.known.cap, stable.parked) == (CAP // 2, None), one.full_name
        assert stable.known.state.last_decrease_at is not None


@pytest.mark.parametrize("one", judged(*CONGESTED), ids=lambda one: one.full_name)
def test_the_policy_served_waits_as_long_as_it_is_told_and_lowers_the_cap(pool, clock, one):
    stable = pool(SERVED).looked_at()
    stable.play(one)
    wait = timedelta(seconds=verdict_on(one).verdict.limit.retry_after_seconds)
    closed = stable.known.closed_gate
    named = (closed.gate, closed.until) if closed else None
    assert named == (("limit", clock.now() + wait) if wait else None)
    assert stable.parked is None and stable.known.state.rate_limit_events >= 1
    stable.window_passes()
    if wait > PAUSE:
        # A pause says nothing of how many there may be.
        assert (stable.known.cap, stable.known.closed_gate.gate) == (CAP, "limit")
        return
    assert stable.known.cap < CAP and stable.known.state.last_decrease_at is not None
    assert stable.known.closed_gate is None and stable.parked is None


both_policies = pytest.mark.parametrize("policy", [AIMD, SERVED], ids=["aimd", "served"])


@both_policies
@pytest.mark.parametrize("name", [o.full_name for o in recordings() if o.name == "flaky429"])
def test_flaky_programs_that_got_through_do_no_lasting_harm(pool, name, policy):
    stable = pool(policy).looked_at()
    stable.play(recording(name))
    assert stable.parked is None and stable.known.state.breaker_state is BreakerState.CLOSED
    stable.window_passes()
    assert (stable.known.cap, stable.known.closed_gate, stable.parked) == (CAP, None, None)
    assert stable.known.state.last_decrease_at is None


def test_a_refusal_that_an_agent_survives_is_counted(pool):
    stable = pool()
    stable.play(recording("claude/flaky429"))
    assert stable.known.state.rate_limit_events == 2


@both_policies
def test_a_wall_parks_the_pool_and_moves_no_cap(pool, clock, policy):
    stable = pool(policy).looked_at()
    for one in judged(*WALLS):
        stable.play_first(one)
        parked = stable.parked
        assert parked is not None and parked.until > clock.now(), one.full_name
        stable.window_passes()
        assert stable.known.cap == CAP, one.full_name
        assert stable.known.state.breaker_state is BreakerState.CLOSED
        assert stable.parked == parked


@both_policies
def test_a_used_up_window_parks_until_its_reset(pool, clock, policy):
    stable = pool(policy)
    stable.play(recording("claude/oauth_429_unified"))
    assert stable.parked.until == datetime.fromtimestamp(1794778844, UTC)
    clock.jump((stable.parked.until - clock.now()).total_seconds())
    assert stable.parked is None


@pytest.mark.parametrize("name", ["claude/400_credit", "claude/401_maxretries0"])
def test_a_bill_and_a_refused_key_wait_for_an_operator(pool, name):
    stable = pool()
    stable.play(recording(name))
    assert stable.parked.until == UNTIL_RESUMED


def test_whatever_else_happens_to_a_program_moves_nothing(pool, clock):
    stable = pool()
    for one in judged(*(set(Outcome) - LIMIT_OUTCOMES - WALLS)):
        stable.play_first(one)
        parked = stable.parked
        # One that met a wall, and was ended before it said so itself.
        assert parked is None or parked.until <= clock.now() + MAX_TASK_PARK, one.full_name
        assert stable.known.cap == CAP
        assert stable.known.state.last_decrease_at is None


def test_three_programs_that_die_at_once_are_a_burst(pool):
    stable = pool()
    for number, one in enumerate(judged(*CONGESTED)[:3]):
        stable.play(one, f"t{number}")
    slots = {seen.slot for seen in stable.known.state.recent_rate_limit_events}
    assert slots == {LeaseSlot("yard", f"t{number}") for number in range(3)}


def test_answers_are_counted_by_message(pool):
    stable = pool(SERVED).looked_at()
    stable.play(recording("claude/tool"))
    assert stable.known.state.window_answers == 2


def test_a_reader_that_was_cut_off_hears_nothing_twice(pool, tmp_path):
    """Its worker dies before it could store, and the next one reads the same lines."""
    one = recording("claude/flaky429")
    stable = pool(SERVED).looked_at()
    run = stable.begin(one, "t1")
    (tmp_path / "stdout").write_bytes(as_bytes(one.stdout))
    cut = StreamReader(run, tmp_path, stable.clock)
    cut.read()
    again = StreamReader(run, tmp_path, stable.clock)
    again.read()
    moved = stable.look(run, again)
    with pytest.raises(transitions.FenceLost):
        stable.look(run, cut)
    late = StreamReader(moved, tmp_path, stable.clock)
    assert not late.read() and not late.signals
    known = stable.known.state
    assert (known.rate_limit_events, known.window_answers) == (2, 1)


def test_a_pool_that_learns_nothing_is_parked_by_a_named_time_as_before(pool, clock):
    timed = [
        one
        for one in recordings()
        if (limit := verdict_on(one).verdict.limit)
        and limit.retry_after_seconds > 0
        and Outcome(one.judged) in CONGESTED
    ]
    assert timed
    for one in timed:
        stable = pool(Policy(default_cap=CAP))
        stable.play(one)
        assert stable.parked is not None
        clock.advance(timedelta(days=40).total_seconds())


def test_every_kind_of_program_is_played():
    assert {one.cli for one in recordings()} <= set(KINDS)
