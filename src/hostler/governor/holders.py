"""Identify the processes that hold leases, and prune leases of those that have exited."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from hostler.governor.adaptive.controller import ProviderReport, apply_report, read_pool, slot_of
from hostler.governor.adaptive.model import LeaseSlot
from hostler.governor.parking import age_of, is_invalid_time, repair_parked
from hostler.governor.policy import Policy
from hostler.shim import processes
from hostler.store import Transaction
from hostler.store.governor import (
    Demand,
    Holder,
    Lease,
    all_demand,
    all_leases,
    all_pool_states,
    drop_demand,
    remove_lease_held_by,
    renew_demand,
    touch_lease,
)
from hostler.store.runs import live_run_names

# Returns whether a process is alive, or None if that cannot be determined from here.
IsAlive = Callable[[Holder], bool | None]
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class HostView:
    """This process and this machine, read outside a transaction.

    `random_fraction` returns a number in [0, 1) for each start, to jitter the spacing.
    """

    holder: Holder
    free_mb: int | None
    is_alive: IsAlive
    random_fraction: Callable[[], float] = random.random


def read_host() -> HostView:
    """Return this process and the current state of this machine."""
    return HostView(current_holder(), free_memory_mb(), is_alive)


def current_holder() -> Holder:
    """Return this process. Without an identity, its leases end with their TTL."""
    try:
        return holder_of(processes.current_identity()) or Holder()
    except OSError:
        return Holder(host=os.uname().nodename, pid=os.getpid())


def holder_of(known: Mapping[str, object]) -> Holder | None:
    """Return the process that an identity describes, or None if it is incomplete."""
    host, boot, space = (known.get(name) for name in ("host", "boot_id", "pid_namespace"))
    pid, ticks = known.get("pid"), known.get("start_ticks")
    if not (isinstance(host, str) and isinstance(boot, str) and isinstance(space, str)):
        return None
    if not (isinstance(pid, int) and isinstance(ticks, int) and pid > 0):
        return None
    return Holder(host, boot, space, pid, ticks)


def is_alive(holder: Holder) -> bool | None:
    """Return True if this process is alive, None if that cannot be determined from here."""
    try:
        visible = _is_visible(holder.host, holder.boot_id, holder.pid_namespace)
    except OSError:
        return True  # unknown: check again next time
    if not visible:
        return visible
    process = processes.read_process(holder.pid)
    if process is not None:
        return not process.zombie and process.key == (holder.pid, holder.start_ticks)
    # Reading /proc needs a free descriptor; signal 0 does not.
    return _accepts_signal(holder.pid)


def free_memory_mb() -> int | None:
    """Return the memory available without swapping, or None if unknown."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(found.split()[1]) // 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return _psutil_free_mb()


def _psutil_free_mb() -> int | None:
    import psutil  # type: ignore[import-untyped]

    try:
        return int(psutil.virtual_memory().available) // (1024 * 1024)
    except (OSError, RuntimeError, ValueError):
        return None


def _accepts_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@lru_cache(maxsize=64)
def _is_visible(host: str, boot_id: str, pid_namespace: str) -> bool | None:
    """Return whether our process table would show such a process. Cached: it never changes."""
    if not host or not boot_id:
        return None
    return processes.is_visible_here(
        {"host": host, "boot_id": boot_id, "pid_namespace": pid_namespace}
    )


# A forked child may be in another pid namespace.
os.register_at_fork(after_in_child=_is_visible.cache_clear)


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """All leases and demands, and what pruning does with each.

    `leases` and `demands` stay, the `ended_` ones go. `unverified` leases stay although nothing
    here shows whether their holders are alive. The times of `to_touch` and `to_renew` are set to
    now.
    """

    leases: tuple[Lease, ...]
    ended: tuple[Lease, ...]
    unverified: frozenset[str]
    to_touch: tuple[Lease, ...]
    demands: tuple[Demand, ...]
    ended_demands: tuple[Demand, ...]
    to_renew: tuple[Demand, ...]


# For a home without a database.
EMPTY_PRUNE_PLAN = PrunePlan((), (), frozenset(), (), (), (), ())


def plan_prune(tx: Transaction, policy: Policy, host: HostView) -> PrunePlan:
    """Check every holder, and plan what to prune. Writes nothing."""
    runs = live_run_names(tx)
    return make_prune_plan(all_leases(tx), all_demand(tx), tx.now(), policy, host.is_alive, runs)


def prune(tx: Transaction, policy: Policy, host: HostView) -> PrunePlan:
    """Remove leases and demand of dead processes, and update the times of the others."""
    found = plan_prune(tx, policy, host)
    apply_prune(tx, found, policy)
    repair_parked(tx)
    if policy.is_any_adaptive:
        # Pools without leases too: their times may need sanitising after a clock jump.
        for pool in sorted({lease.pool for lease in found.leases} | {*all_pool_states(tx)}):
            read_pool(tx, policy, pool)
    return found


def apply_prune(tx: Transaction, found: PrunePlan, policy: Policy) -> None:
    """Apply a prune plan."""
    now = tx.stamp()
    for lease in found.ended:
        remove_lease_held_by(tx, lease.lease, lease.holder)
    if policy.is_any_adaptive:
        for pool in {lease.pool for lease in found.ended}:
            for slot in unreported_ends(found, pool):
                apply_report(tx, policy, pool, ProviderReport(slot, ended=True, reached=False))
    for lease in found.to_touch:
        touch_lease(tx, lease.lease, now)
    for demand in found.ended_demands:
        drop_demand(tx, demand)
    for demand in found.to_renew:
        renew_demand(tx, demand, now)


def unreported_ends(found: PrunePlan, pool: str) -> list[LeaseSlot]:
    """Return slots of pruned programs. The ends of tasks' runs are reported by their worker."""
    programs = (one for one in found.ended if one.pool == pool and not one.task_id)
    return [slot_of(one.project, one.task_id, one.lease) for one in programs]


def make_prune_plan(
    leases: Iterable[Lease],
    demands: Iterable[Demand],
    now: datetime,
    policy: Policy,
    is_alive: IsAlive,
    live_runs: Set[str] = frozenset(),
) -> PrunePlan:
    """Decide what happens to leases and demand, by whether their holders are alive."""
    seen = [(lease, _is_lease_alive(lease, is_alive, live_runs)) for lease in leases]
    stay = [(lease, lives) for lease, lives in seen if not lease_ended(lease, lives, now, policy)]
    judged = [
        (demand, demand_ended(demand, is_alive(demand.holder), now, policy)) for demand in demands
    ]
    return PrunePlan(
        leases=tuple(lease for lease, _ in stay),
        ended=tuple(lease for lease, lives in seen if lease_ended(lease, lives, now, policy)),
        unverified=frozenset(lease.lease for lease, lives in stay if lives is None),
        to_touch=tuple(lease for lease, lives in stay if _needs_touch(lease, lives, now, policy)),
        demands=tuple(demand for demand, ended in judged if not ended),
        ended_demands=tuple(demand for demand, ended in judged if ended),
        to_renew=tuple(
            w for w, ended in judged if not ended and is_invalid_time(w.updated_at, now)
        ),
    )


def _is_lease_alive(lease: Lease, is_alive: IsAlive, live_runs: Set[str]) -> bool | None:
    """Return whether the agent of a lease is alive.

    A killed shim may leave processes that have not been ended yet: None while its run is open.
    """
    alive = is_alive(lease.holder)
    return None if alive is False and lease.lease in live_runs else alive


def lease_ended(lease: Lease, alive: bool | None, now: datetime, policy: Policy) -> bool:
    """Return True if the holder is dead, or unverified for longer than the TTL."""
    if alive is not None:
        return not alive
    return age_of(lease.seen_at, now) >= _ttl(policy)


def demand_ended(demand: Demand, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """Return True if the process is dead, wants nothing more, or did not renew in time."""
    spent = demand.wanted is not None and demand.wanted <= 0
    return spent or lives is False or is_stale(demand, now, policy)


def is_stale(demand: Demand, now: datetime, policy: Policy) -> bool:
    """Return True if a demand was not renewed within its TTL."""
    return age_of(demand.updated_at, now) >= timedelta(seconds=policy.demand_ttl_seconds)


def _needs_touch(lease: Lease, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """Return True if `seen_at` is invalid, or must be renewed for other hosts' sake."""
    if is_invalid_time(lease.seen_at, now):
        return True
    return lives is True and age_of(lease.seen_at, now) >= _ttl(policy) / 4


def _ttl(policy: Policy) -> timedelta:
    return timedelta(seconds=policy.unattached_lease_ttl_seconds)
