"""Any history of adaptive pools: no cap is passed, one agent probes, nothing is stuck or lost."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from governor_yard import PLENTY, a_run
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete

from hostler.clock import FakeClock
from hostler.governor import holders, leases
from hostler.governor.adaptive import controller
from hostler.governor.adaptive.controller import ProviderReport
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    Reason,
    Source,
)
from hostler.governor.adaptive.state import load_state
from hostler.governor.gates import Gate, LeaseDenied, LeaseGranted, LeaseRequest
from hostler.governor.holders import HostView
from hostler.governor.policy import Policy
from hostler.governor.status import status as governor_status
from hostler.store import schema
from hostler.store.engine.postgres import PostgresBackend
from hostler.store.governor import (
    Holder,
    all_leases,
    all_pool_states,
    find_pool_state,
    put_pool_state,
)

POOLS = ["anthropic", "openai", "openai:work"]
pool_names = st.sampled_from([*POOLS, POOLS[0], POOLS[0]])
projects = st.sampled_from(["ant", "bee"])
# The same pid again and again, each time of another process.
pids = st.sampled_from([11, 12, 13])
config = st.builds(
    PoolConfig,
    adaptive=st.sampled_from([True, True, True, False]),
    policy=st.sampled_from(["aimd", "aimd", "served"]),
    hard_max=st.integers(1, 6),
    settle_seconds=st.sampled_from([0.0, 60.0, 120.0]),
    break_seconds=st.sampled_from([30.0, 300.0]),
    min_dispatch_interval_seconds=st.sampled_from([0.0, 3.0]),
)
PATIENCE = timedelta(hours=1)


class AdaptiveMachine(RuleBasedStateMachine):
    database = None

    @initialize(told=st.fixed_dictionaries(dict.fromkeys(POOLS[:2], config)))
    def begin(self, told):
        self.clock = FakeClock()
        self.store = self.database.open(self.clock)
        with self.write() as tx:
            for table in (schema.leases, schema.demand, schema.pools):
                tx.execute(delete(table))
        self.policy = Policy(default_cap=3, tuned=told)
        self.ticks: dict[int, int] = {}
        self.number = 0
        # The tasks of leases that live as far as this test knows, by lease.
        self.tasks: dict[str, tuple[str, LeaseSlot, Holder]] = {}

    def teardown(self):
        if hasattr(self, "tasks"):
            try:
                self.patience_leads_to_a_start()
            finally:
                self.store.close()

    def write(self):
        return self.store.write("admission", relaxed=True)

    def process(self, pid: int) -> Holder:
        return Holder("yard", "boot-1", "pid:[1]", pid, self.ticks.get(pid, 1))

    def alive(self, holder: Holder) -> bool:
        return holder.start_ticks == self.ticks.get(holder.pid, 1)

    def host(self, pid: int, roll: float = 0.5) -> HostView:
        return HostView(self.process(pid), PLENTY, self.alive, lambda: roll)

    def texts(self) -> dict[str, str]:
        with self.store.read() as tx:
            return all_pool_states(tx)

    def others_stay(self, pool: str, before: dict[str, str], *, learning: bool = False) -> None:
        """Pools know nothing of each other, and one that is off keeps every byte.

        `learning`: others that are on may learn something too.
        """
        after = self.texts()
        moves = {name for name in POOLS if self.policy.is_adaptive(name)}
        moves = moves if learning else moves & {pool}
        stay = [name for name in POOLS if name not in moves]
        assert {name: after.get(name) for name in stay} == {n: before.get(n) for n in stay}

    # What programs do.

    @rule(
        pid=pids,
        pool=pool_names,
        project=projects,
        count=st.integers(1, 3),
        roll=st.floats(0, 0.999),
        undone=st.sampled_from([False] * 4 + [True]),
        wraps=st.booleans(),
    )
    def acquire(self, pid, pool, project, count, roll, undone, wraps):
        for _ in range(count):
            self.number += 1
            name = f"run-{self.number:03}"
            task = "" if wraps else f"t{self.number}"
            self.acquire_one(LeaseRequest(name, project, pool, task), self.host(pid, roll), undone)

    def acquire_one(self, request, host, undone):
        before = self.texts()
        with self.store.read() as tx:
            foreseen = leases.preview(tx, request, self.policy, host)
            shown = self.shown(tx, request.pool, host)
            assert all_pool_states(tx) == before
        with suppress(ZeroDivisionError), self.write() as tx:
            answer = leases.acquire(tx, request, self.policy, host)
            if undone:
                raise ZeroDivisionError
        assert foreseen == (answer if isinstance(answer, LeaseDenied) else None)
        # What the dead left is given back in every pool, before a no.
        self.others_stay(request.pool, before, learning=True)
        if undone:
            assert self.texts() == before
        elif isinstance(answer, LeaseGranted):
            self.granted(request, host, shown)

    def shown(self, tx, pool, host):
        found = governor_status(tx, self.policy, host)
        return next((one for one in found.pools if one.pool == pool), None)

    def granted(self, request, host, shown):
        slot = LeaseSlot(request.project, request.task_id or request.lease)
        self.tasks[request.lease] = (request.pool, slot, host.holder)
        with self.store.read() as tx:
            counted = self.shown(tx, request.pool, host)
            state = load_state(find_pool_state(tx, request.pool))
        most = self.policy.pool_config(request.pool)
        assert counted.active <= counted.cap <= max(most.hard_max, most.max_global)
        if not most.adaptive:
            assert counted.cap == self.policy.cap(request.pool)
        elif state.breaker_state is BreakerState.HALF_OPEN:
            # Nobody else was trying, and now this one is.
            assert state.probe == slot
            assert shown is None or shown.learned is None or shown.learned.state.probe is None
        else:
            assert state.breaker_state is BreakerState.CLOSED

    def one(self, data) -> str:
        return data.draw(st.sampled_from(sorted(self.tasks)))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), pid=pids)
    def attach(self, data, pid):
        name = self.one(data)
        pool, slot, holder = self.tasks[name]
        try:
            with self.write() as tx:
                leases.attach(tx, a_run(name, shim=self.process(pid)))
        except leases.LeaseLost:
            assert not self.alive(holder)
            del self.tasks[name]
        else:
            self.tasks[name] = (pool, slot, self.process(pid))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), reached=st.booleans(), by=st.sampled_from([None, None, *Reason]))
    def end(self, data, reached, by):
        """A run ends: its place is free, and its pool hears how."""
        name = self.one(data)
        pool, slot, _ = self.tasks.pop(name)
        limits = (LimitReport(slot, Source.DEATH, by),) if by else ()
        before = self.texts()
        with self.write() as tx:
            leases.release(tx, a_run(name))
            news = ProviderReport(slot, limits, ended=True, reached=reached)
            controller.apply_report(tx, self.policy, pool, news)
        self.others_stay(pool, before)

    @precondition(lambda self: self.tasks)
    @rule(
        data=st.data(),
        limits=st.integers(0, 3),
        answers=st.integers(0, 9),
        use=st.none() | st.floats(0, 1.2),
        wait=st.sampled_from([None, None, 5, 900]),
    )
    def report(self, data, limits, answers, use, wait):
        pool, slot, _ = self.tasks[self.one(data)]
        again = self.clock.now() + timedelta(seconds=wait) if wait else None
        report = LimitReport(slot, Source.LIVE, Reason.OVERLOAD, again)
        words = () if use is None else (LimitAnnouncement(slot, use, again),)
        before = self.texts()
        with self.write() as tx:
            controller.apply_report(
                tx, self.policy, pool, ProviderReport(slot, (report,) * limits, words, answers)
            )
        self.others_stay(pool, before)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), pid=pids)
    def lend_and_take_back(self, data, pid):
        name = self.one(data)
        with self.write() as tx:
            leases.release_temporarily(tx, name, self.policy)
        request, host = LeaseRequest(name, "ant"), self.host(pid)
        with suppress(leases.LeaseLost), self.write() as tx:
            answer = leases.reacquire(tx, request, self.policy, host)
            if isinstance(answer, LeaseDenied):
                leases.force_reacquire(tx, name)

    @rule(pool=pool_names, project=projects, pid=pids, wanted=st.integers(0, 3))
    def demand(self, pool, project, pid, wanted):
        with self.write() as tx:
            leases.publish_demand(tx, pool, project, self.host(pid), wanted=wanted)

    # What happens to them.

    @rule(pid=pids)
    def crash(self, pid):
        """It dies, and its pid passes on at once."""
        self.ticks[pid] = self.ticks.get(pid, 1) + 1

    @rule(pid=pids)
    def prune(self, pid):
        with self.write() as tx:
            holders.prune(tx, self.policy, self.host(pid))
            left = all_leases(tx)
        assert all(self.alive(one.holder) for one in left)
        names = {one.lease for one in left}
        # A live holder never loses its place, and nothing leaks.
        lost = [name for name, (_, _, who) in self.tasks.items() if self.alive(who)]
        assert names >= set(lost)
        self.tasks = {name: one for name, one in self.tasks.items() if name in names}

    @rule(seconds=st.sampled_from([1, 4, 31, 61, 121, 299, 301, 601, 1801, 3700]))
    def advance(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-86_400, -301, -5, 61, 86_400]))
    def jump(self, seconds):
        self.clock.jump(seconds)

    @rule(pool=st.sampled_from(POOLS[:2]), told=config)
    def configure(self, pool, told):
        self.policy = replace(self.policy, tuned={**self.policy.tuned, pool: told})

    @rule(pool=pool_names, cap=st.integers(1, 5))
    def set_cap(self, pool, cap):
        self.policy = replace(self.policy, caps={**self.policy.caps, pool: cap})
        with self.write() as tx:
            controller.reset_cap(tx, self.policy, pool)

    @rule(pool=pool_names)
    def reset(self, pool):
        with self.write() as tx:
            controller.reset(tx, pool)

    @rule(pool=pool_names, garbage=st.sampled_from(["{", "[]", '{"dynamic_cap": -1}']))
    def damage(self, pool, garbage):
        with self.write() as tx:
            put_pool_state(tx, pool, garbage)
        with self.store.read() as tx:
            shown = self.shown(tx, pool, self.host(11))
        if self.policy.is_adaptive(pool):
            assert shown.cap == 1

    # What always holds.

    @invariant()
    def what_is_known_is_within_its_bounds(self):
        if not hasattr(self, "tasks"):
            return
        with self.store.read() as tx:
            for pool in governor_status(tx, self.policy, self.host(11)).pools:
                told = self.policy.pool_config(pool.pool)
                assert 1 <= pool.cap <= max(told.hard_max, told.max_global)
                assert sum(pool.shares.values()) <= pool.cap

    def patience_leads_to_a_start(self):
        """From wherever it stands: once all that runs has ended, somebody gets in again."""
        for pid in (11, 12, 13):
            self.crash(pid)
        for pool in POOLS:
            assert any(self.tries(pool) for _ in range(12)), f"{pool} is stuck"

    def tries(self, pool: str) -> bool:
        self.clock.advance(PATIENCE.total_seconds())
        self.number += 1
        with self.write() as tx:
            request = LeaseRequest(f"last-{self.number}", "ant", pool, f"last{self.number}")
            answer = leases.acquire(tx, request, self.policy, self.host(11))
        held = {Gate.BREAKER, Gate.LIMIT, Gate.SPACING}
        assert isinstance(answer, LeaseGranted) or answer.gate in held, answer
        return isinstance(answer, LeaseGranted)


@pytest.mark.parametrize("examples", [12, pytest.param(3000, marks=pytest.mark.soak)])
def test_any_history_of_adaptive_pools_keeps_its_promises(sqlite_database, examples):
    run(sqlite_database, examples)


@pytest.mark.postgres
@pytest.mark.parametrize("examples", [4, pytest.param(3000, marks=pytest.mark.soak)])
def test_the_same_on_a_server(postgres_database, monkeypatch, examples):
    run(postgres_database, examples, monkeypatch)


def run(database, examples, monkeypatch=None):
    class Machine(AdaptiveMachine):
        def write(self):
            if monkeypatch is not None:
                now = self.clock.now
                monkeypatch.setattr(PostgresBackend, "now", lambda _self, _connection: now())
            return super().write()

    Machine.database = database
    long = settings(max_examples=examples, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(Machine, settings=long)
