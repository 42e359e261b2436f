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
    make_pool_load,
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
    share_warning,
)
from hostler.governor.holders import (
    HostView,
    PrunePlan,
    apply_prune,
    holder_of,
    is_stale,
    plan_prune,
    unreported_ends,
)
from hostler.governor.parking import active_parking, readable_time
from hostler.governor.policy import Policy, pool_key
from hostler.store import Store, Transaction
from hostler.store import governor as rows
from hostler.store.governor import (
    Claim,
    Demand,
    Holder,
    Lease,
    LeaseCounts,
    Parked,
    claims,
    count_leases,
    find_pool_state,
    lease_owners,
    parked_pool,
    put_pool_state,
    reduce_demand,
)
from hostler.store.runs import Run
from hostler.store.transaction import not_after


class LeaseLost(HostlerError):
    """A run has no lease, so its agent must not be started."""

    def __init__(self, lease: str, why: str) -> None:
        super().__init__(f"There is no lease for {lease}: {why}.", safe="No agent was started.")
        self.lease = lease


class NoFreeSlot(HostlerError):
    """A lease was requested, and none can be granted now."""

    # EX_TEMPFAIL of sysexits: try again later.
    exit_code = 75

    def __init__(self, denied: LeaseDenied) -> None:
        super().__init__(denied.what, safe="Nothing was started.", remedy=denied.remedy)
        self.denied = denied


# The settings have the same limit. A damaged row must not make the circle of shares huge.
MAX_WEIGHT = 100


def quick_inputs(
    tx: Transaction, request: LeaseRequest, policy: Policy, host: HostView
) -> GateInputs:
    """Count leases in the database. Leases of dead processes may still be among them."""
    boot_id = host.holder.boot_id if policy.machine_max_agents > 0 else None
    counts = count_leases(tx, request.pool, request.project, boot_id)
    found = claims(tx, request.pool) if counts.demand_count else []
    now = tx.now()
    fresh = [c for c in found if not is_stale(c.demand, now, policy)]
    # Lease owners matter only to adaptive pools.
    rows = lease_owners(tx, request.pool) if policy.is_adaptive(request.pool) else []
    return _build_inputs(
        request, counts, fresh, host, _adaptive_pool(request, counts, policy, now, rows), now
    )


def pruned_inputs(
    tx: Transaction, request: LeaseRequest, policy: Policy, host: HostView, found: PrunePlan
) -> GateInputs:
    """Count only leases whose holders are alive, or not known to be dead."""
    state = find_pool_state(tx, request.pool) if policy.is_adaptive(request.pool) else ""
    return inputs_from(request, policy, host, found, parked_pool(tx, request.pool), state, tx.now())


def inputs_from(
    request: LeaseRequest,
    policy: Policy,
    host: HostView,
    found: PrunePlan,
    parked: Parked | None,
    state: str,
    now: datetime,
) -> GateInputs:
    """Build the gate inputs from rows that were already read."""
    counting = [lease for lease in found.leases if not lease.released]
    counts = LeaseCounts(
        in_pool=_count(counting, pool=request.pool),
        own_in_pool=_count(counting, pool=request.pool, project=request.project),
        own=_count(counting, project=request.project),
        on_machine=count_on_machine(counting, host),
        parked=parked,
        state=state,
    )
    claimed = [
        Claim(
            demand,
            _count(counting, pool=request.pool, project=demand.project),
            _count(counting, project=demand.project),
        )
        for demand in found.demands
        if demand.pool == request.pool
    ]
    rows = [
        (one.project, one.task_id, one.lease) for one in found.leases if one.pool == request.pool
    ]
    known = _adaptive_pool(request, counts, policy, now, rows, unreported_ends(found, request.pool))
    return _build_inputs(request, counts, claimed, host, known, now)


def _adaptive_pool(
    request: LeaseRequest,
    counts: LeaseCounts,
    policy: Policy,
    now: datetime,
    rows: Sequence[tuple[str, str, str]],
    ended: Iterable[LeaseSlot] = (),
) -> AdaptivePool | None:
    """Return the state of an adaptive pool, or None if its cap is fixed.

    The request itself is waiting demand.
    """
    if not policy.is_adaptive(request.pool):
        return None
    load = make_pool_load(counts.in_pool, rows, waiting=True)
    return adaptive_pool(policy.pool_config(request.pool), counts.state, now, load, ended)


def count_on_machine(leases: Iterable[Lease], host: HostView) -> int:
    """Return how many of the leases are, or may be, on this machine."""
    return sum(lease.holder.boot_id in {host.holder.boot_id, ""} for lease in leases)


def demand_by_project(found: Iterable[Claim]) -> dict[str, ProjectDemand]:
    """Return the demand per project: the sum over its processes, limited by its width."""
    by_project: dict[str, list[Claim]] = {}
    for claim in found:
        by_project.setdefault(claim.demand.project, []).append(claim)
    return {project: _merge_demand(project, same) for project, same in by_project.items()}


def _merge_demand(project: str, same: list[Claim]) -> ProjectDemand:
    wanted = [claim.demand.wanted for claim in same]
    known = [max(0, number) for number in wanted if number is not None]
    more = min(sum(known), UNLIMITED) if len(known) == len(wanted) else None
    widths = [claim.demand.width for claim in same]
    if min(widths) > 0:
        room = max(0, max(widths) - same[0].everywhere)
        more = room if more is None else min(more, room)
    return ProjectDemand(project, same[0].active, more, _weight(max(c.demand.weight for c in same)))


def _build_inputs(
    request: LeaseRequest,
    counts: LeaseCounts,
    found: Collection[Claim],
    host: HostView,
    known: AdaptivePool | None,
    now: datetime,
) -> GateInputs:
    demands = demand_by_project(found)
    demands[request.project] = _requesting_demand(request, counts, demands.get(request.project))
    published = any(
        (c.demand.project, c.demand.holder) == (request.project, host.holder) for c in found
    )
    return GateInputs(
        now=now,
        pool=request.pool,
        in_pool=counts.in_pool,
        own_in_pool=counts.own_in_pool,
        own=counts.own,
        on_machine=counts.on_machine,
        free_mb=host.free_mb,
        demands=tuple(demands.values()),
        parked=active_parking(counts.parked, now),
        demand_published=published,
        learned=known,
    )


def _requesting_demand(
    request: LeaseRequest, counts: LeaseCounts, known: ProjectDemand | None
) -> ProjectDemand:
    """Return the demand of the requesting project: at least one more agent."""
    if known is None:
        return ProjectDemand(request.project, counts.own_in_pool, 1, _weight(request.weight))
    more = None if known.more is None else max(1, known.more)
    return ProjectDemand(request.project, counts.own_in_pool, more, known.weight)


def _weight(weight: int) -> int:
    return min(max(1, weight), MAX_WEIGHT)


def _count(leases: Iterable[Lease], *, pool: str = "", project: str = "") -> int:
    return sum(
        (not pool or lease.pool == pool) and (not project or lease.project == project)
        for lease in leases
    )


def publish_demand(
    tx: Transaction,
    pool: str,
    project: str,
    host: HostView,
    *,
    wanted: int | None = None,
    weight: int = 1,
    width: int = 0,
) -> None:
    """Publish how many more agents this process would start now; None means unknown.

    Renew it within the demand TTL.
    """
    number = None if wanted is None else min(wanted, UNLIMITED)
    row = Demand(pool_key(pool), project, host.holder, tx.stamp(), number, weight, width)
    if number is None or number > 0:
        rows.put_demand(tx, row)
    else:
        rows.drop_demand(tx, row)


def drop_demand(tx: Transaction, pool: str, project: str, host: HostView) -> None:
    """Remove this process's demand for a project."""
    publish_demand(tx, pool, project, host, wanted=0)


# Gates that count leases, or wait for a probe: pruning dead holders may open them.
_GATES_OPENED_BY_PRUNING = frozenset({Gate.BREAKER, Gate.MACHINE, Gate.CAP, Gate.WIDTH, Gate.SHARE})


def acquire(
    tx: Transaction, request: LeaseRequest, policy: Policy, host: HostView
) -> LeaseGranted | LeaseDenied:
    """Grant a lease held by this process, or say which gate is closed."""
    request = _with_pool_key(request)
    inputs, denied = _evaluate(tx, request, policy, host, pruning=True)
    if denied is not None:
        return denied
    now = tx.stamp()
    rows.add_lease(tx, _lease(request, host.holder, now, host.holder.pid))
    _note_start(tx, request, inputs, host)
    if inputs.demand_published:
        reduce_demand(tx, Demand(request.pool, request.project, host.holder, now))
    return LeaseGranted(request.lease, request.pool)


def preview(
    tx: Transaction, request: LeaseRequest, policy: Policy, host: HostView
) -> LeaseDenied | None:
    """Return what `acquire` would deny, or None if it would grant. Writes nothing."""
    _, denied = _evaluate(tx, _with_pool_key(request), policy, host, pruning=False)
    return denied


def attach(tx: Transaction, run: Run) -> None:
    """Make a run's shim the holder of its lease. Raise LeaseLost if there is none.

    The shim lives as long as the agent does.
    """
    holder = _shim_process(run)
    if holder is None:
        raise LeaseLost(run.run, "its supervisor is unknown")
    if not rows.set_lease_holder(tx, run.run, holder, tx.stamp()):
        raise LeaseLost(run.run, "its lease is gone")


def release(tx: Transaction, run: Run) -> None:
    """Release a run's lease, if it has one."""
    release_lease(tx, run.run)


def release_lease(tx: Transaction, lease: str, policy: Policy | None = None) -> bool:
    """Release the lease. Return False if there was none.

    With a policy, an adaptive pool learns that the agent ended without reaching its provider.
    """
    adaptive = policy is not None and policy.is_any_adaptive
    found = rows.find_lease(tx, lease) if adaptive else None
    removed = rows.remove_lease(tx, lease)
    if policy is not None and found is not None:
        _report_end(tx, found, policy, reached=False)
    return removed


def restore_lease(tx: Transaction, run: Run) -> None:
    """Add a lease past all gates, for a run whose shim is alive without one."""
    holder = _shim_process(run)
    if holder is None:
        raise LeaseLost(run.run, "its supervisor is unknown")
    if rows.find_lease(tx, run.run) is None:
        request = LeaseRequest(run.run, run.project, pool_key(run.pool), task_id=run.task_id)
        rows.add_lease(tx, _lease(request, holder, tx.stamp(), 0))
        rows.set_lease_holder(tx, run.run, holder, tx.stamp())


def release_temporarily(tx: Transaction, lease: str, policy: Policy | None = None) -> bool:
    """Stop counting a lease while its agent waits. Return False if it did not count.

    The agent's provider has answered it, so a probe of the breaker has succeeded.
    """
    counted = rows.set_lease_released(tx, lease, released=True)
    if (
        counted
        and policy is not None
        and policy.is_any_adaptive
        and (found := rows.find_lease(tx, lease))
    ):
        _report_end(tx, found, policy, reached=True)
    return counted


def force_reacquire(tx: Transaction, lease: str) -> bool:
    """Count a temporarily released lease again past all gates, for a running agent."""
    return rows.set_lease_released(tx, lease, released=False)


def reacquire(
    tx: Transaction, request: LeaseRequest, policy: Policy, host: HostView
) -> LeaseGranted | LeaseDenied:
    """Count a temporarily released lease again if all gates are open."""
    found = rows.find_lease(tx, request.lease)
    if found is None:
        raise LeaseLost(request.lease, "its lease is gone")
    request = replace(request, pool=found.pool, project=found.project, task_id=found.task_id)
    if found.released:
        inputs, denied = _evaluate(tx, request, policy, host, pruning=True)
        if denied is not None:
            return denied
        rows.set_lease_released(tx, request.lease, released=False)
        _note_start(tx, request, inputs, host)
    return LeaseGranted(request.lease, request.pool)


def width_warning(
    tx: Transaction, request: LeaseRequest, policy: Policy, host: HostView
) -> str | None:
    """Return a warning if a project's width exceeds its fair share, else None."""
    request = _with_pool_key(request)
    return share_warning(request, quick_inputs(tx, request, policy, host), policy)


def _note_start(tx: Transaction, request: LeaseRequest, inputs: GateInputs, host: HostView) -> None:
    """Store that one more agent calls its provider. Undone with the transaction."""
    if inputs.learned is not None:
        slot = slot_of(request.project, request.task_id, request.lease)
        put_pool_state(
            tx, request.pool, inputs.learned.state_after_start(slot, host.random_fraction())
        )


def _report_end(tx: Transaction, lease: Lease, policy: Policy, *, reached: bool) -> None:
    """Tell an adaptive pool that this lease's agent has stopped calling its provider."""
    slot = slot_of(lease.project, lease.task_id, lease.lease)
    apply_report(tx, policy, lease.pool, ProviderReport(slot, ended=True, reached=reached))


def _with_pool_key(request: LeaseRequest) -> LeaseRequest:
    return replace(request, pool=pool_key(request.pool))


def _evaluate(
    tx: Transaction, request: LeaseRequest, policy: Policy, host: HostView, *, pruning: bool
) -> tuple[GateInputs, LeaseDenied | None]:
    """Return the inputs and the first closed gate.

    Holders are checked only before a denial: dead ones can only take up slots, never add any.
    """
    inputs = quick_inputs(tx, request, policy, host)
    living: tuple[Lease, ...] = ()
    denied = decide(request, inputs, policy)
    if denied is not None and denied.gate in _GATES_OPENED_BY_PRUNING:
        found = plan_prune(tx, policy, host)
        if pruning:
            apply_prune(tx, found, policy)
        inputs, living = pruned_inputs(tx, request, policy, host, found), found.leases
        denied = decide(request, inputs, policy)
    if denied is None:
        return inputs, None
    if pruning and inputs.learned is not None:
        # Store what time has changed, also when the request is denied.
        store_state(tx, request.pool, inputs.learned.stored, inputs.learned.state)
    since = denied.since or closed_since(denied, living, host, inputs.now)
    return inputs, replace(denied, since=since)


def closed_since(
    denied: LeaseDenied, living: Iterable[Lease], host: HostView, now: datetime
) -> datetime | None:
    """Return when a lease gate closed: when the newest counted lease was acquired.

    It reads only leases that the gate counts, so `preview` and `acquire` answer the same.
    """
    counted: dict[Gate, Callable[[Lease], bool]] = {
        Gate.MACHINE: lambda lease: lease.holder.boot_id in {host.holder.boot_id, ""},
        Gate.CAP: lambda lease: lease.pool == denied.pool,
        Gate.WIDTH: lambda lease: lease.project == denied.project,
        Gate.SHARE: lambda lease: lease.project == denied.project,
    }
    counts = counted.get(denied.gate)
    if counts is None:
        return None
    newest = max(
        (one.acquired_at for one in living if not one.released and counts(one)), default=""
    )
    acquired_at = readable_time(newest)
    return not_after(acquired_at, now) if acquired_at else None


def _lease(request: LeaseRequest, holder: Holder, now: str, engine_pid: int) -> Lease:
    return Lease(
        request.lease,
        request.pool,
        request.project,
        holder,
        acquired_at=now,
        seen_at=now,
        task_id=request.task_id,
        program=request.program,
        model=request.model,
        engine_pid=engine_pid,
    )


def _shim_process(run: Run) -> Holder | None:
    known = json.loads(run.shim) if run.shim else {}
    return holder_of(known) if isinstance(known, dict) else None


# Commits wake the waiter. Deaths of holders and freed memory do not: check for them this often.
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LeaseWaiter:
    """Waits for leases. `policy` and `read_host` are called again for each attempt."""

    store: Store
    clock: Clock
    policy: Callable[[], Policy]
    read_host: Callable[[], HostView]
    on_denied: Callable[[LeaseDenied], None]

    def wait(self, request: LeaseRequest) -> LeaseGranted:
        """Return a lease for this process. If the wait is interrupted, drop its demand."""
        try:
            while True:
                changes = self.store.change_mark()
                answer = self.try_acquire(request)
                if isinstance(answer, LeaseGranted):
                    return answer
                self._wait_until_open(request, answer, changes)
        except BaseException:
            with suppress(StoreError), self.store.write("admission", relaxed=True) as tx:
                drop_demand(tx, request.pool, request.project, self.read_host())
            raise

    def try_acquire(
        self, request: LeaseRequest, *, publish: bool = True
    ) -> LeaseGranted | LeaseDenied:
        """Acquire a lease. If denied, publish demand for it unless `publish` is False."""
        host = self.read_host()
        with self.store.write("admission", relaxed=True) as tx:
            answer = acquire(tx, request, self.policy(), host)
            if isinstance(answer, LeaseGranted):
                drop_demand(tx, request.pool, request.project, host)
            elif publish:
                given = {"weight": request.weight, "width": request.width}
                publish_demand(tx, request.pool, request.project, host, wanted=1, **given)
            return answer

    def _wait_until_open(
        self, request: LeaseRequest, denied: LeaseDenied | None, changes: int
    ) -> None:
        """Wait until the gates look open in a read snapshot, or the demand must be renewed."""
        renew_at = self.clock.monotonic() + self.policy().demand_ttl_seconds / 3
        while denied is not None and self.clock.monotonic() < renew_at:
            self.on_denied(denied)
            changes = self.store.wait_for_change(changes, self._retry_delay(denied))
            with self.store.read() as tx:
                denied = preview(tx, request, self.policy(), self.read_host())

    def _retry_delay(self, denied: LeaseDenied) -> float:
        if denied.opens_at is None:
            return RETRY_SECONDS
        seconds = (denied.opens_at - self.clock.now()).total_seconds()
        return min(RETRY_SECONDS, max(0.0, seconds))
