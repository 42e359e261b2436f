"""Acquire, hand over and release leases in an open transaction, and report demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from hostler.clock import Clock
from hostler.errors import HostlerError, StoreError
from hostler.governor.adaptive.controller import (
    AdaptivePool,
    ProviderReport,
    adaptive_pool,
    apply_report,
    pool_load,
    slot_of,
    store_state,
)
from hostler.governor.adaptive.model import LeaseSlot
from hostler.governor.gates import (
    UNLIMITED,
    Gate,
    GateInputs,
    LeaseDenied,
    LeaseGranted,
    LeaseRequest,
    ProjectDemand,
    decide,
    too_wide,
)
from hostler.governor.holders import (
    HostView,
    PruneSurvey,
    apply_survey,
    holder_of,
    is_stale,
    silent_ends,
    survey,
)
from hostler.governor.parking import closed, readable_time
from hostler.governor.policy import Policy, pool_key
from hostler.store import Store, Transaction
from hostler.store import governor as rows
from hostler.store.governor import (
    Claim,
    Demand,
    Holder,
    Lease,
    Parked,
    Standing,
    claims,
    find_overlay,
    parked_pool,
    put_overlay,
    standing,
    take_one,
    whose,
)
from hostler.store.runs import Run
from hostler.store.transaction import not_after


class LeaseLost(HostlerError):
    """An agent has no place: it must not be started."""

    def __init__(self, lease: str, why: str) -> None:
        super().__init__(f"There is no place for {lease}: {why}.", safe="No agent was started.")
        self.lease = lease


class NoFreeSlot(HostlerError):
    """A place was asked for, and none is free now."""

    # As a program says that it may work later (sysexits).
    exit_code = 75

    def __init__(self, denied: LeaseDenied) -> None:
        super().__init__(denied.what, safe="Nothing was started.", remedy=denied.remedy)
        self.denied = denied


# Of settings too; what a damaged row says must not make a circle without end.
MAX_WEIGHT = 100


def quick_inputs(tx: Transaction, ask: LeaseRequest, policy: Policy, here: HostView) -> GateInputs:
    """Counted by the database. The dead may still be among those counted."""
    boot_id = here.holder.boot_id if policy.machine_max_agents > 0 else None
    counts = standing(tx, ask.pool, ask.project, boot_id)
    found = claims(tx, ask.pool) if counts.wishes else []
    now = tx.now()
    fresh = [c for c in found if not is_stale(c.demand, now, policy)]
    # Whose agents run matters only where something is learned.
    rows = whose(tx, ask.pool) if policy.is_adaptive(ask.pool) else []
    return _scene(ask, counts, fresh, here, _known(ask, counts, policy, now, rows), now)


def pruned_inputs(
    tx: Transaction, ask: LeaseRequest, policy: Policy, here: HostView, found: PruneSurvey
) -> GateInputs:
    """Counted from those who live, as far as anybody can tell."""
    overlay = find_overlay(tx, ask.pool) if policy.is_adaptive(ask.pool) else ""
    return inputs_from(ask, policy, here, found, parked_pool(tx, ask.pool), overlay, tx.now())


def inputs_from(
    ask: LeaseRequest,
    policy: Policy,
    here: HostView,
    found: PruneSurvey,
    parked: Parked | None,
    overlay: str,
    now: datetime,
) -> GateInputs:
    """The same from what was read already."""
    counting = [lease for lease in found.leases if not lease.lent]
    counts = Standing(
        in_pool=_count(counting, pool=ask.pool),
        own_in_pool=_count(counting, pool=ask.pool, project=ask.project),
        own=_count(counting, project=ask.project),
        on_machine=count_on_machine(counting, here),
        parked=parked,
        overlay=overlay,
    )
    claimed = [
        Claim(
            wish,
            _count(counting, pool=ask.pool, project=wish.project),
            _count(counting, project=wish.project),
        )
        for wish in found.demand
        if wish.pool == ask.pool
    ]
    rows = [(one.project, one.task_id, one.lease) for one in found.leases if one.pool == ask.pool]
    known = _known(ask, counts, policy, now, rows, silent_ends(found, ask.pool))
    return _scene(ask, counts, claimed, here, known, now)


def _known(
    ask: LeaseRequest,
    counts: Standing,
    policy: Policy,
    now: datetime,
    rows: Sequence[tuple[str, str, str]],
    ended: Iterable[LeaseSlot] = (),
) -> AdaptivePool | None:
    """What was learned of the pool; None where nothing is. Whoever asks waits for a place."""
    if not policy.is_adaptive(ask.pool):
        return None
    load = pool_load(counts.in_pool, rows, waiting=True)
    return adaptive_pool(policy.knobs(ask.pool), counts.overlay, now, load, ended)


def count_on_machine(leases: Iterable[Lease], here: HostView) -> int:
    """How many of them are, or may be, on this machine."""
    return sum(lease.holder.boot_id in {here.holder.boot_id, ""} for lease in leases)


def demands_in(found: Iterable[Claim]) -> dict[str, ProjectDemand]:
    """One wish per project: what all its processes want together, and no more than its width."""
    by_project: dict[str, list[Claim]] = {}
    for claim in found:
        by_project.setdefault(claim.demand.project, []).append(claim)
    return {project: _together(project, same) for project, same in by_project.items()}


def _together(project: str, same: list[Claim]) -> ProjectDemand:
    wanted = [claim.demand.wanted for claim in same]
    known = [max(0, number) for number in wanted if number is not None]
    more = min(sum(known), UNLIMITED) if len(known) == len(wanted) else None
    widths = [claim.demand.width for claim in same]
    if min(widths) > 0:
        room = max(0, max(widths) - same[0].everywhere)
        more = room if more is None else min(more, room)
    return ProjectDemand(project, same[0].active, more, _weight(max(c.demand.weight for c in same)))


def _scene(
    ask: LeaseRequest,
    counts: Standing,
    found: Collection[Claim],
    here: HostView,
    known: AdaptivePool | None,
    now: datetime,
) -> GateInputs:
    wishes = demands_in(found)
    wishes[ask.project] = _asking(ask, counts, wishes.get(ask.project))
    said = any((c.demand.project, c.demand.holder) == (ask.project, here.holder) for c in found)
    return GateInputs(
        now=now,
        pool=ask.pool,
        in_pool=counts.in_pool,
        own_in_pool=counts.own_in_pool,
        own=counts.own,
        on_machine=counts.on_machine,
        free_mb=here.free_mb,
        wishes=tuple(wishes.values()),
        parked=closed(counts.parked, now),
        said=said,
        learned=known,
    )


def _asking(ask: LeaseRequest, counts: Standing, known: ProjectDemand | None) -> ProjectDemand:
    """Whoever asks wants one more at least."""
    if known is None:
        return ProjectDemand(ask.project, counts.own_in_pool, 1, _weight(ask.weight))
    more = None if known.more is None else max(1, known.more)
    return ProjectDemand(ask.project, counts.own_in_pool, more, known.weight)


def _weight(weight: int) -> int:
    return min(max(1, weight), MAX_WEIGHT)


def _count(leases: Iterable[Lease], *, pool: str = "", project: str = "") -> int:
    return sum(
        (not pool or lease.pool == pool) and (not project or lease.project == project)
        for lease in leases
    )


def demand(
    tx: Transaction,
    pool: str,
    project: str,
    here: HostView,
    *,
    wanted: int | None = None,
    weight: int = 1,
    width: int = 0,
) -> None:
    """Say how many more agents this process would start now; None: unknown. Renew it in time."""
    number = None if wanted is None else min(wanted, UNLIMITED)
    said = Demand(pool_key(pool), project, here.holder, tx.stamp(), number, weight, width)
    if number is None or number > 0:
        rows.put_demand(tx, said)
    else:
        rows.drop_demand(tx, said)


def drop_demand(tx: Transaction, pool: str, project: str, here: HostView) -> None:
    """This process wants nothing for a project any more."""
    demand(tx, pool, project, here, wanted=0)


# Gates that may open when the dead are counted no more; of the breaker's probe too.
COUNTING = frozenset({Gate.BREAKER, Gate.MACHINE, Gate.CAP, Gate.WIDTH, Gate.SHARE})


def acquire(
    tx: Transaction, ask: LeaseRequest, policy: Policy, here: HostView
) -> LeaseGranted | LeaseDenied:
    """A lease for one agent, held by this process; or which gate is closed."""
    ask = _named(ask)
    scene, denied = _answer(tx, ask, policy, here, pruning=True)
    if denied is not None:
        return denied
    now = tx.stamp()
    rows.add_lease(tx, _lease(ask, here.holder, now, here.holder.pid))
    _note_start(tx, ask, scene, here)
    if scene.said:
        take_one(tx, Demand(ask.pool, ask.project, here.holder, now))
    return LeaseGranted(ask.lease, ask.pool)


def preview(
    tx: Transaction, ask: LeaseRequest, policy: Policy, here: HostView
) -> LeaseDenied | None:
    """What `acquire` would answer; None: it would be granted. Writes nothing."""
    _, denied = _answer(tx, _named(ask), policy, here, pruning=False)
    return denied


def attach(tx: Transaction, run: Run) -> None:
    """A run's lease passes to its shim, which lives as long as its agent."""
    holder = _shim(run)
    if holder is None:
        raise LeaseLost(run.run, "its supervisor is unknown")
    if not rows.give_lease(tx, run.run, holder, tx.stamp()):
        raise LeaseLost(run.run, "its lease is gone")


def release(tx: Transaction, run: Run) -> None:
    """A run's place is free. No harm if it was."""
    release_lease(tx, run.run)


def release_lease(tx: Transaction, lease: str, policy: Policy | None = None) -> bool:
    """A place is free; whether it was taken. With a policy, its pool hears that nobody called."""
    learns = policy is not None and policy.adapts
    found = rows.find_lease(tx, lease) if learns else None
    taken = rows.remove_lease(tx, lease)
    if policy is not None and found is not None:
        _hear_of(tx, found, policy, reached=False)
    return taken


def hold_lease(tx: Transaction, run: Run) -> None:
    """A lease past all gates, for a run whose shim was found alive without one."""
    holder = _shim(run)
    if holder is None:
        raise LeaseLost(run.run, "its supervisor is unknown")
    if rows.find_lease(tx, run.run) is None:
        ask = LeaseRequest(run.run, run.project, pool_key(run.pool), task_id=run.task_id)
        rows.add_lease(tx, _lease(ask, holder, tx.stamp(), 0))
        rows.give_lease(tx, run.run, holder, tx.stamp())


def release_temporarily(tx: Transaction, lease: str, policy: Policy | None = None) -> bool:
    """Count a lease no more, while its agent waits for others; whether it counted.

    Its provider has answered it, or it would not wait: a probe of the breaker has succeeded.
    """
    counted = rows.lend_lease(tx, lease, lent=True)
    if counted and policy is not None and policy.adapts and (found := rows.find_lease(tx, lease)):
        _hear_of(tx, found, policy, reached=True)
    return counted


def recount(tx: Transaction, lease: str) -> bool:
    """Count a lent lease past all gates, for an agent that works on without asking."""
    return rows.lend_lease(tx, lease, lent=False)


def reacquire(
    tx: Transaction, ask: LeaseRequest, policy: Policy, here: HostView
) -> LeaseGranted | LeaseDenied:
    """Count a lent lease again, through all gates."""
    found = rows.find_lease(tx, ask.lease)
    if found is None:
        raise LeaseLost(ask.lease, "its lease is gone")
    ask = replace(ask, pool=found.pool, project=found.project, task_id=found.task_id)
    if found.lent:
        scene, denied = _answer(tx, ask, policy, here, pruning=True)
        if denied is not None:
            return denied
        rows.lend_lease(tx, ask.lease, lent=False)
        _note_start(tx, ask, scene, here)
    return LeaseGranted(ask.lease, ask.pool)


def width_warning(tx: Transaction, ask: LeaseRequest, policy: Policy, here: HostView) -> str | None:
    """What to tell the operator of a project whose width is more than its share, if it is."""
    ask = _named(ask)
    return too_wide(ask, quick_inputs(tx, ask, policy, here), policy)


def _note_start(tx: Transaction, ask: LeaseRequest, scene: GateInputs, here: HostView) -> None:
    """One more agent calls its provider. Undone with the transaction, like the lease."""
    if scene.learned is not None:
        slot = slot_of(ask.project, ask.task_id, ask.lease)
        put_overlay(tx, ask.pool, scene.learned.after_start(slot, here.roll()))


def _hear_of(tx: Transaction, lease: Lease, policy: Policy, *, reached: bool) -> None:
    """Its agent calls its provider no more, for now or for good."""
    slot = slot_of(lease.project, lease.task_id, lease.lease)
    apply_report(tx, policy, lease.pool, ProviderReport(slot, over=True, reached=reached))


def _named(ask: LeaseRequest) -> LeaseRequest:
    return replace(ask, pool=pool_key(ask.pool))


def _answer(
    tx: Transaction, ask: LeaseRequest, policy: Policy, here: HostView, *, pruning: bool
) -> tuple[GateInputs, LeaseDenied | None]:
    """The first closed gate. Holders are looked at only before a no: the dead only take up room."""
    scene = quick_inputs(tx, ask, policy, here)
    living: tuple[Lease, ...] = ()
    denied = decide(ask, scene, policy)
    if denied is not None and denied.gate in COUNTING:
        found = survey(tx, policy, here)
        if pruning:
            apply_survey(tx, found, policy)
        scene, living = pruned_inputs(tx, ask, policy, here, found), found.leases
        denied = decide(ask, scene, policy)
    if denied is None:
        return scene, None
    if pruning and scene.learned is not None:
        # What time has changed is stored by whoever writes next, granted or not.
        store_state(tx, ask.pool, scene.learned.stored, scene.learned.overlay)
    since = denied.since or closed_since(denied, living, here, scene.now)
    return scene, replace(denied, since=since)


def closed_since(
    denied: LeaseDenied, living: Iterable[Lease], here: HostView, now: datetime
) -> datetime | None:
    """Since when a gate is closed, as far as leases tell: it was the newest that closed it.

    Only those count that the gate has counted, so that a look says the same as a real question.
    """
    counted: dict[Gate, Callable[[Lease], bool]] = {
        Gate.MACHINE: lambda lease: lease.holder.boot_id in {here.holder.boot_id, ""},
        Gate.CAP: lambda lease: lease.pool == denied.pool,
        Gate.WIDTH: lambda lease: lease.project == denied.project,
        Gate.SHARE: lambda lease: lease.project == denied.project,
    }
    counts = counted.get(denied.gate)
    if counts is None:
        return None
    newest = max((one.acquired_at for one in living if not one.lent and counts(one)), default="")
    moment = readable_time(newest)
    return not_after(moment, now) if moment else None


def _lease(ask: LeaseRequest, holder: Holder, now: str, engine_pid: int) -> Lease:
    return Lease(
        ask.lease,
        ask.pool,
        ask.project,
        holder,
        acquired_at=now,
        seen_at=now,
        task_id=ask.task_id,
        program=ask.program,
        model=ask.model,
        engine_pid=engine_pid,
    )


def _shim(run: Run) -> Holder | None:
    known = json.loads(run.shim) if run.shim else {}
    return holder_of(known) if isinstance(known, dict) else None


# A commit wakes us at once; that somebody died, or that memory is free, nobody commits.
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LeaseWaiter:
    """Waits for places. `policy` and `look` are asked again at each look; `tell` hears each no."""

    store: Store
    clock: Clock
    policy: Callable[[], Policy]
    look: Callable[[], HostView]
    tell: Callable[[LeaseDenied], None]

    def place(self, ask: LeaseRequest) -> LeaseGranted:
        """A lease for this process. Whoever ends the wait leaves no wish behind."""
        try:
            while True:
                mark = self.store.change_mark()
                answer = self.now(ask)
                if isinstance(answer, LeaseGranted):
                    return answer
                self._until_it_looks_open(ask, answer, mark)
        except BaseException:
            with suppress(StoreError), self.store.write("admission", relaxed=True) as tx:
                drop_demand(tx, ask.pool, ask.project, self.look())
            raise

    def now(self, ask: LeaseRequest, *, wishing: bool = True) -> LeaseGranted | LeaseDenied:
        """A lease, or a no, and then a wish for one unless nobody waits."""
        here = self.look()
        with self.store.write("admission", relaxed=True) as tx:
            answer = acquire(tx, ask, self.policy(), here)
            if isinstance(answer, LeaseGranted):
                drop_demand(tx, ask.pool, ask.project, here)
            elif wishing:
                given = {"weight": ask.weight, "width": ask.width}
                demand(tx, ask.pool, ask.project, here, wanted=1, **given)
            return answer

    def _until_it_looks_open(
        self, ask: LeaseRequest, denied: LeaseDenied | None, mark: int
    ) -> None:
        """On snapshots, which wake nobody; but not past the time to say the wish again."""
        renew_at = self.clock.monotonic() + self.policy().demand_ttl_seconds / 3
        while denied is not None and self.clock.monotonic() < renew_at:
            self.tell(denied)
            mark = self.store.wait_for_change(mark, self._nap(denied))
            with self.store.read() as tx:
                denied = preview(tx, ask, self.policy(), self.look())

    def _nap(self, denied: LeaseDenied) -> float:
        if denied.opens_at is None:
            return RETRY_SECONDS
        seconds = (denied.opens_at - self.clock.now()).total_seconds()
        return min(RETRY_SECONDS, max(0.0, seconds))
