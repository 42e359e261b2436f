"""Any history of the governor against a plain model of it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from database import PATIENT
from governor_yard import PLENTY, a_run, process
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
from sqlalchemy import delete, update
from test_governor_shares import one_by_one

from hostler.clock import FakeClock
from hostler.governor import holders, leases, parking
from hostler.governor.gates import (
    UNLIMITED,
    Gate,
    LeaseDenied,
    LeaseGranted,
    LeaseRequest,
    ProjectDemand,
)
from hostler.governor.holders import HostView
from hostler.governor.policy import Policy
from hostler.governor.status import status as governor_status
from hostler.model import format_timestamp
from hostler.store import open_store
from hostler.store.governor import Holder, all_demand, all_leases
from hostler.store.schema import demand as demand_table
from hostler.store.schema import leases as lease_table
from hostler.store.schema import pools as pool_table

POOLS = ["anthropic", "openai"]
PROJECTS = ["ant", "bee", "cat"]
# One of another machine: it is never seen from here.
HERE = [process(number) for number in (1, 2, 3)]
AWAY = [process(4, boot_id="boot-2")]
COUNTING = {Gate.MACHINE, Gate.CAP, Gate.WIDTH, Gate.SHARE}

# One pool is busy, so that its gates are all reached; the other shows that it is not disturbed.
pools, projects = st.sampled_from([*POOLS, POOLS[0], POOLS[0]]), st.sampled_from(PROJECTS)
everybody = st.sampled_from([*HERE, *AWAY])
ours = st.sampled_from(HERE)


@dataclass
class Place:
    """A lease, as the model knows it."""

    pool: str
    project: str
    holder: Holder
    seen: datetime
    released: bool = False


@dataclass
class Want:
    """A wish, as the model knows it."""

    wanted: int | None
    weight: int
    width: int
    said: datetime


@dataclass
class Model:
    """The same rules in the plainest words: lists, and nothing clever."""

    policy: Policy
    places: dict[str, Place] = field(default_factory=dict)
    wants: dict[tuple[str, str, Holder], Want] = field(default_factory=dict)
    # Since when and until when.
    parked: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    dead: set[Holder] = field(default_factory=set)

    def alive(self, holder: Holder) -> bool | None:
        return None if holder in AWAY else holder not in self.dead

    def settled(self, now: datetime) -> Model:
        """Without those who are known to be gone."""
        lease_ttl = timedelta(seconds=self.policy.unattached_lease_ttl_seconds)
        wish_ttl = timedelta(seconds=self.policy.demand_ttl_seconds)
        places = {
            name: replace(one)
            for name, one in self.places.items()
            if self.alive(one.holder) is True
            or (self.alive(one.holder) is None and now - one.seen < lease_ttl)
        }
        wants = {
            key: replace(one)
            for key, one in self.wants.items()
            if self.alive(key[2]) is not False and now - one.said < wish_ttl and one.wanted != 0
        }
        return Model(self.policy, places, wants, self.parked, self.dead)

    def prune(self, now: datetime) -> None:
        """Keep those who are not gone, and note who lives."""
        kept = self.settled(now)
        self.places, self.wants = kept.places, kept.wants
        soon = timedelta(seconds=self.policy.unattached_lease_ttl_seconds) / 4
        for one in self.places.values():
            if one.seen > now or (self.alive(one.holder) and now - one.seen >= soon):
                one.seen = now
        for one in self.wants.values():
            one.said = min(one.said, now)

    def mend_closings(self, now: datetime) -> None:
        for pool, (since, until) in self.parked.items():
            if now < (ends := self.parked_until(pool, now)) != until:
                self.parked[pool] = (min(since, now), ends)

    def parked_until(self, pool: str, now: datetime) -> datetime:
        """No closing lies farther ahead than it could have been set, or was."""
        since, until = self.parked.get(pool, (now, now))
        return min(until, now + (until - since if until > since else timedelta(days=31)))

    def count(self, pool: str | None = None, project: str | None = None) -> int:
        return sum(
            not one.released and pool in (None, one.pool) and project in (None, one.project)
            for one in self.places.values()
        )

    def share(self, request: LeaseRequest, now: datetime) -> int:
        wish_ttl = timedelta(seconds=self.policy.demand_ttl_seconds)
        by_project: dict[str, list[Want]] = {}
        for (pool, project, _), want in self.wants.items():
            if pool == request.pool and want.wanted != 0 and now - want.said < wish_ttl:
                by_project.setdefault(project, []).append(want)
        demands = {name: self.demand(name, request.pool, said) for name, said in by_project.items()}
        mine = demands.get(request.project, ProjectDemand(request.project, more=1))
        more = None if mine.more is None else max(1, mine.more)
        active = self.count(request.pool, request.project)
        demands[request.project] = ProjectDemand(request.project, active, more, mine.weight)
        turn = int(now.timestamp() // self.policy.rotation_window_seconds)
        cap = self.policy.cap(request.pool)
        return one_by_one(cap, list(demands.values()), turn)[request.project]

    def demand(self, project: str, pool: str, said: list[Want]) -> ProjectDemand:
        more = None if any(one.wanted is None for one in said) else sum(o.wanted for o in said)
        widths = [one.width for one in said]
        if 0 not in widths:
            room = max(0, max(widths) - self.count(project=project))
            more = min(UNLIMITED if more is None else more, room)
        return ProjectDemand(
            project, self.count(pool, project), more, max(one.weight for one in said)
        )

    def closed(self, request: LeaseRequest, free_mb: int, now: datetime) -> Gate | None:
        on_machine = sum(
            not one.released and one.holder.boot_id == "boot-1" for one in self.places.values()
        )
        if self.parked_until(request.pool, now) > now:
            return Gate.PARKED
        if 0 < self.policy.machine_max_agents <= on_machine:
            return Gate.MACHINE
        if free_mb < self.policy.memory_floor_mb:
            return Gate.MEMORY
        if self.count(request.pool) >= self.policy.cap(request.pool):
            return Gate.CAP
        if 0 < request.width <= self.count(project=request.project):
            return Gate.WIDTH
        if self.count(request.pool, request.project) >= self.share(request, now):
            return Gate.SHARE
        return None

    def answer(self, request: LeaseRequest, free_mb: int, now: datetime) -> Gate | None:
        gate = self.closed(request, free_mb, now)
        if gate not in COUNTING:
            return gate
        return self.settled(now).closed(request, free_mb, now)


class GovernorMachine(RuleBasedStateMachine):
    home = None

    @initialize(
        caps=st.dictionaries(pools, st.integers(1, 6)),
        machine=st.sampled_from([0, 0, 4]),
    )
    def begin(self, caps, machine):
        self.clock = FakeClock()
        self.store = open_store(self.home, clock=self.clock, patience=PATIENT)
        with self.store.write() as tx:
            for table in (lease_table, demand_table, pool_table):
                tx.execute(delete(table))
        policy = Policy(caps=caps, default_cap=4, machine_max_agents=machine)
        self.model = Model(policy)
        self.number = 0

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def host(self, holder: Holder, free_mb: int = PLENTY) -> HostView:
        return HostView(holder, free_mb, self.model.alive)

    def write(self):
        return self.store.write("admission", relaxed=True)

    # What programs do.

    @rule(
        who=ours,
        pool=pools,
        wanting=st.lists(projects, min_size=1, max_size=5),
        width=st.sampled_from([0, 0, 0, 2, 3]),
        free_mb=st.sampled_from([PLENTY] * 7 + [10]),
        undone=st.sampled_from([False] * 5 + [True]),
        said=st.sampled_from([None, None, 1, 3]),
    )
    def acquire(self, who, pool, wanting, width, free_mb, undone, said):
        """A pass of one program, which may say first what it wants."""
        if said:
            self.say(who, pool, wanting[0], said, 1, width)
        for project in wanting:
            self.number += 1
            request = LeaseRequest(f"run-{self.number:03}", project, pool, width=width)
            self.acquire_one(request, self.host(who, free_mb), undone)

    def acquire_one(self, request, host, undone):
        policy, free_mb = self.model.policy, host.free_mb
        expected = self.model.answer(request, free_mb, self.now)
        pruned = self.model.closed(request, free_mb, self.now) in COUNTING
        with self.store.read() as tx:
            foreseen = leases.preview(tx, request, policy, host)
        with suppress(ZeroDivisionError), self.write() as tx:
            answer = leases.acquire(tx, request, policy, host)
            if undone:
                raise ZeroDivisionError
        assert (answer.gate if isinstance(answer, LeaseDenied) else None) is expected
        assert foreseen == (answer if isinstance(answer, LeaseDenied) else None)
        if undone:
            return
        if pruned:
            self.model.prune(self.now)
        if isinstance(answer, LeaseGranted):
            self.granted(request, host.holder)

    def granted(self, request: LeaseRequest, who: Holder) -> None:
        self.model.places[request.lease] = Place(request.pool, request.project, who, self.now)
        want = self.model.wants.get((request.pool, request.project, who))
        # A wish that was said too long ago counts no more, and is pruned as it is.
        ttl = timedelta(seconds=self.model.policy.demand_ttl_seconds)
        if want is not None and want.wanted and self.now - want.said < ttl:
            want.wanted -= 1
        live = self.model.settled(self.now)
        assert live.count(request.pool) <= self.model.policy.cap(request.pool)

    def a_lease(self, data) -> str:
        return data.draw(st.sampled_from(sorted(self.model.places)))

    @precondition(lambda self: self.model.places)
    @rule(data=st.data(), shim=everybody)
    def attach(self, data, shim):
        name = self.a_lease(data)
        with self.write() as tx:
            leases.attach(tx, a_run(name, shim=shim))
        place = self.model.places[name]
        place.holder, place.seen = shim, self.now

    @precondition(lambda self: self.model.places)
    @rule(data=st.data())
    def release(self, data):
        name = self.a_lease(data)
        with self.write() as tx:
            leases.release(tx, a_run(name))
        del self.model.places[name]

    @rule(who=everybody, pool=pools, project=projects)
    def hold(self, who, pool, project):
        self.number += 1
        name = f"held-{self.number:03}"
        with self.write() as tx:
            leases.restore_lease(tx, a_run(name, project, pool, shim=who))
        self.model.places[name] = Place(pool, project, who, self.now)

    @precondition(lambda self: self.model.places)
    @rule(data=st.data())
    def lend(self, data):
        place = self.model.places[name := self.a_lease(data)]
        with self.write() as tx:
            assert leases.release_temporarily(tx, name) is not place.released
        place.released = True

    @precondition(lambda self: any(one.released for one in self.model.places.values()))
    @rule(data=st.data(), who=ours)
    def take_back(self, data, who):
        released = sorted(name for name, one in self.model.places.items() if one.released)
        name = data.draw(st.sampled_from(released))
        place = self.model.places[name]
        request = LeaseRequest(name, place.project, place.pool)
        expected = self.model.answer(request, PLENTY, self.now)
        pruned = self.model.closed(request, PLENTY, self.now) in COUNTING
        with self.write() as tx:
            answer = leases.reacquire(tx, request, self.model.policy, self.host(who))
        assert (answer.gate if isinstance(answer, LeaseDenied) else None) is expected
        if pruned:
            self.model.prune(self.now)
        if isinstance(answer, LeaseGranted) and name in self.model.places:
            self.model.places[name].released = False

    @rule(
        who=everybody,
        pool=pools,
        project=projects,
        wanted=st.none() | st.integers(-1, 3),
        weight=st.integers(1, 3),
        width=st.sampled_from([0, 0, 1, 3]),
    )
    def demand(self, who, pool, project, wanted, weight, width):
        self.say(who, pool, project, wanted, weight, width)

    def say(self, who, pool, project, wanted, weight, width):
        given = {"wanted": wanted, "weight": weight, "width": width}
        with self.write() as tx:
            leases.publish_demand(tx, pool, project, self.host(who), **given)
        if wanted is None or wanted > 0:
            self.model.wants[pool, project, who] = Want(wanted, weight, width, self.now)
        else:
            self.model.wants.pop((pool, project, who), None)

    @rule(who=everybody, pool=pools, project=projects)
    def drop_demand(self, who, pool, project):
        with self.write() as tx:
            leases.drop_demand(tx, pool, project, self.host(who))
        self.model.wants.pop((pool, project, who), None)

    @rule(who=ours)
    def prune(self, who):
        with self.write() as tx:
            holders.prune(tx, self.model.policy, self.host(who))
        self.model.prune(self.now)
        self.model.mend_closings(self.now)
        # Nothing leaks.
        assert not any(one.holder in self.model.dead for one in self.model.places.values())

    @rule(pool=pools, seconds=st.sampled_from([-60, 0, 15]))
    def park(self, pool, seconds):
        until = self.now + timedelta(seconds=seconds)
        with self.write() as tx:
            parking.park(tx, pool, until, "spent")
        # A closing that lasts longer stays.
        count_leases = self.model.parked_until(pool, self.now)
        if pool not in self.model.parked or count_leases < until:
            since = self.model.parked[pool][0] if count_leases > self.now else self.now
            self.model.parked[pool] = (min(since, self.now), until)

    @rule(pool=pools)
    def resume(self, pool):
        with self.write() as tx:
            parking.resume(tx, pool)
        self.model.parked.pop(pool, None)

    # What happens to them.

    @precondition(lambda self: not self.model.dead)
    @rule(who=ours)
    def die(self, who):
        self.model.dead.add(who)

    @precondition(lambda self: self.model.dead)
    @rule()
    def come_again(self):
        """Once nothing of the dead is left, the test needs them for new processes."""
        holders = {one.holder for one in self.model.places.values()}
        self.model.dead &= holders | {who for _, _, who in self.model.wants}

    @rule(seconds=st.sampled_from([1, 20, 59, 61, 299, 601]))
    def advance(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-86_400, -3600, -61, 61, 3600]))
    def jump(self, seconds):
        self.clock.jump(seconds)

    @rule(pool=pools, cap=st.integers(1, 6))
    def change_a_cap(self, pool, cap):
        policy = self.model.policy
        self.model.policy = replace(policy, caps={**policy.caps, pool: cap})

    @precondition(lambda self: self.model.places)
    @rule(data=st.data(), garbage=st.sampled_from(["", "yesterday", "9999-12-31T23:59:59.999Z"]))
    def damage_a_lease(self, data, garbage):
        """What cannot be believed counts as now, for as long as it stands there."""
        name = self.a_lease(data)
        with self.write() as tx:
            tx.execute(
                update(lease_table).where(lease_table.c.lease == name).values(seen_at=garbage)
            )
            holders.prune(tx, self.model.policy, self.host(HERE[0]))
        self.model.places[name].seen = self.now
        self.model.prune(self.now)

    @precondition(lambda self: self.model.wants)
    @rule(data=st.data(), weight=st.sampled_from([-5, 0, 10**9]))
    def damage_a_wish(self, data, weight):
        """Whatever a damaged weight does to shares, caps hold; the wish is said again."""
        order = sorted(self.model.wants, key=lambda key: (key[0], key[1], key[2].columns))
        pool, _, who = data.draw(st.sampled_from(order))
        with self.write() as tx:
            tx.execute(update(demand_table).values(weight=weight, updated_at="soon"))
            for name in PROJECTS:
                leases.preview(tx, LeaseRequest("x", name, pool), self.model.policy, self.host(who))
            tx.execute(delete(demand_table))
        self.model.wants.clear()

    # What always holds.

    @invariant()
    def rows_are_as_the_model(self):
        if not hasattr(self, "model"):
            return
        with self.store.read() as tx:
            leases = {
                one.lease: (one.pool, one.project, one.holder, one.released, one.seen_at)
                for one in all_leases(tx)
            }
            demands = {
                (one.pool, one.project, one.holder): (one.wanted, one.weight, one.width)
                for one in all_demand(tx)
            }
        assert leases == {
            name: (one.pool, one.project, one.holder, one.released, format_timestamp(one.seen))
            for name, one in self.model.places.items()
        }
        assert demands == {
            key: (one.wanted, one.weight, one.width) for key, one in self.model.wants.items()
        }

    @invariant()
    def shares_never_sum_to_more_than_the_cap(self):
        if not hasattr(self, "model"):
            return
        with self.store.read() as tx:
            found = governor_status(tx, self.model.policy, self.host(HERE[0]))
        for pool in found.pools:
            assert sum(pool.shares.values()) <= pool.cap


@pytest.mark.parametrize("examples", [15, pytest.param(4000, marks=pytest.mark.soak)])
def test_any_history_is_as_the_model_says(tmp_path, leases_template, examples):
    shutil.copy(leases_template, tmp_path / leases_template.name)
    GovernorMachine.home = tmp_path
    long = settings(max_examples=examples, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(GovernorMachine, settings=long)
