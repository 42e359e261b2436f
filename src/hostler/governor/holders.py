"""Processes that hold leases, and pruning the leases of those that have exited."""

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
from hostler.governor.parking import age_of, is_off, repair_parked
from hostler.governor.policy import Policy
from hostler.shim import processes
from hostler.store import Transaction
from hostler.store.governor import (
    Demand,
    Holder,
    Lease,
    all_demand,
    all_leases,
    all_overlays,
    drop_demand,
    remove_lease_of,
    renew_demand,
    see_lease,
)
from hostler.store.runs import live_run_names

# Whether that very process lives; None where it cannot be known from here.
IsAlive = Callable[[Holder], bool | None]
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class HostView:
    """What can only be seen from outside a transaction: who asks, and how this machine is.

    `roll` throws a number in [0, 1) for each start, so that machines do not start in step.
    """

    holder: Holder
    free_mb: int | None
    alive: IsAlive
    roll: Callable[[], float] = random.random


def read_host() -> HostView:
    """This process and this machine, now."""
    return HostView(current_holder(), free_memory_mb(), is_alive)


def current_holder() -> Holder:
    """This process. Where it has no identity, its leases end with their TTL."""
    try:
        return holder_of(processes.current_identity()) or Holder()
    except OSError:
        return Holder(host=os.uname().nodename, pid=os.getpid())


def holder_of(known: Mapping[str, object]) -> Holder | None:
    """The process that an identity names; None where it names none."""
    host, boot, space = (known.get(name) for name in ("host", "boot_id", "pid_namespace"))
    pid, ticks = known.get("pid"), known.get("start_ticks")
    if not (isinstance(host, str) and isinstance(boot, str) and isinstance(space, str)):
        return None
    if not (isinstance(pid, int) and isinstance(ticks, int) and pid > 0):
        return None
    return Holder(host, boot, space, pid, ticks)


def is_alive(holder: Holder) -> bool | None:
    """Whether that very process lives; None where it cannot be known from here."""
    try:
        reach = _reach(holder.host, holder.boot_id, holder.pid_namespace)
    except OSError:
        return True  # asked again next time
    if not reach:
        return reach
    process = processes.read_process(holder.pid)
    if process is not None:
        return not process.zombie and process.key == (holder.pid, holder.start_ticks)
    # Without a free descriptor nobody can be seen. A signal of number 0 needs none.
    return _answers(holder.pid)


def free_memory_mb() -> int | None:
    """Memory that a new program could use, without swapping; None where nobody says."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(found.split()[1]) // 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return _asked_elsewhere()


def _asked_elsewhere() -> int | None:
    import psutil  # type: ignore[import-untyped]

    try:
        return int(psutil.virtual_memory().available) // (1024 * 1024)
    except (OSError, RuntimeError, ValueError):
        return None


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@lru_cache(maxsize=64)
def _reach(host: str, boot_id: str, pid_namespace: str) -> bool | None:
    """Whether our process table could show it; asked once per place, which never changes."""
    if not host or not boot_id:
        return None
    return processes.is_visible_here(
        {"host": host, "boot_id": boot_id, "pid_namespace": pid_namespace}
    )


# A child may be the first of another namespace.
os.register_at_fork(after_in_child=_reach.cache_clear)


@dataclass(frozen=True, slots=True)
class PruneSurvey:
    """All leases and wishes, by what is to be done with them.

    `unseen` are among those that stay: nobody here can say whether their holders live. `noted`
    and `renewed` stay too, and their moments are to be set to now.
    """

    leases: tuple[Lease, ...]
    ended: tuple[Lease, ...]
    unseen: frozenset[str]
    noted: tuple[Lease, ...]
    demand: tuple[Demand, ...]
    ended_demand: tuple[Demand, ...]
    renewed: tuple[Demand, ...]


# Of a database that is not there yet.
NOTHING_TO_PRUNE = PruneSurvey((), (), frozenset(), (), (), (), ())


def survey(tx: Transaction, policy: Policy, here: HostView) -> PruneSurvey:
    """Look at every holder. Writes nothing."""
    runs = live_run_names(tx)
    return judge_holders(all_leases(tx), all_demand(tx), tx.now(), policy, here.alive, runs)


def prune(tx: Transaction, policy: Policy, here: HostView) -> PruneSurvey:
    """Give back what the dead held, note who lives, and let pools note what runs."""
    found = survey(tx, policy, here)
    apply_survey(tx, found, policy)
    repair_parked(tx)
    if policy.adapts:
        # Those without leases too: what a clock that was set back left there must be set right.
        for pool in sorted({lease.pool for lease in found.leases} | {*all_overlays(tx)}):
            read_pool(tx, policy, pool)
    return found


def apply_survey(tx: Transaction, found: PruneSurvey, policy: Policy) -> None:
    """Do what a survey says."""
    now = tx.stamp()
    for lease in found.ended:
        remove_lease_of(tx, lease.lease, lease.holder)
    if policy.adapts:
        for pool in {lease.pool for lease in found.ended}:
            for slot in silent_ends(found, pool):
                apply_report(tx, policy, pool, ProviderReport(slot, over=True, reached=False))
    for lease in found.noted:
        see_lease(tx, lease.lease, now)
    for wish in found.ended_demand:
        drop_demand(tx, wish)
    for wish in found.renewed:
        renew_demand(tx, wish, now)


def silent_ends(found: PruneSurvey, pool: str) -> list[LeaseSlot]:
    """Whose programs are gone, with nobody left to say how: of a task's run its worker says it."""
    gone = (one for one in found.ended if one.pool == pool and not one.task_id)
    return [slot_of(one.project, one.task_id, one.lease) for one in gone]


def judge_holders(
    leases: Iterable[Lease],
    demand: Iterable[Demand],
    now: datetime,
    policy: Policy,
    alive: IsAlive,
    live_runs: Set[str] = frozenset(),
) -> PruneSurvey:
    """What becomes of leases and wishes, by whether their holders live."""
    seen = [(lease, _lives(lease, alive, live_runs)) for lease in leases]
    stay = [(lease, lives) for lease, lives in seen if not lease_ended(lease, lives, now, policy)]
    wishes = [(wish, demand_ended(wish, alive(wish.holder), now, policy)) for wish in demand]
    return PruneSurvey(
        leases=tuple(lease for lease, _ in stay),
        ended=tuple(lease for lease, lives in seen if lease_ended(lease, lives, now, policy)),
        unseen=frozenset(lease.lease for lease, lives in stay if lives is None),
        noted=tuple(lease for lease, lives in stay if _to_be_noted(lease, lives, now, policy)),
        demand=tuple(wish for wish, ended in wishes if not ended),
        ended_demand=tuple(wish for wish, ended in wishes if ended),
        renewed=tuple(w for w, ended in wishes if not ended and is_off(w.updated_at, now)),
    )


def _lives(lease: Lease, alive: IsAlive, live_runs: Set[str]) -> bool | None:
    """Whether its agent lives. A killed shim may have left some of it, which is to be ended yet."""
    lives = alive(lease.holder)
    return None if lives is False and lease.lease in live_runs else lives


def lease_ended(lease: Lease, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """A lease ends with its holder; the TTL is for those of whom nobody knows."""
    if lives is not None:
        return not lives
    return age_of(lease.seen_at, now) >= _ttl(policy)


def demand_ended(wish: Demand, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """A wish ends with its process, with its last start, or when it is not renewed."""
    spent = wish.wanted is not None and wish.wanted <= 0
    return spent or lives is False or is_stale(wish, now, policy)


def is_stale(wish: Demand, now: datetime, policy: Policy) -> bool:
    """Whether a wish was said too long ago."""
    return age_of(wish.updated_at, now) >= timedelta(seconds=policy.demand_ttl_seconds)


def _to_be_noted(lease: Lease, lives: bool | None, now: datetime, policy: Policy) -> bool:
    """Others, who cannot see the holder, must hear of it in time. A moment that is off is set."""
    if is_off(lease.seen_at, now):
        return True
    return lives is True and age_of(lease.seen_at, now) >= _ttl(policy) / 4


def _ttl(policy: Policy) -> timedelta:
    return timedelta(seconds=policy.unattached_lease_ttl_seconds)
