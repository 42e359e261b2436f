"""All pools as they are, for faces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from hostler.config import DEFAULT_POOL
from hostler.governor.gates import Ask, Closed, Denied, decide
from hostler.governor.holders import Here
from hostler.governor.learned import Learned, learned, load_of
from hostler.governor.leasing import closed_since
from hostler.governor.overlay import Knobs
from hostler.governor.parking import closed
from hostler.governor.policy import Policy
from hostler.governor.pruning import Survey, silent_ends, survey
from hostler.governor.scenes import count_on_machine, scene_of, wishes_of
from hostler.governor.shares import shares, turn_at
from hostler.governor.telling import told
from hostler.store import Transaction
from hostler.store.governor import Claim, Demand, Lease, Parked, all_overlays, parked_pools


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool: its cap, who runs, who wants more, what each may have, and why its next waits.

    `cap` is the one in force; `learned` is None where it is the operator's alone.
    """

    pool: str
    cap: int
    knobs: Knobs
    leases: tuple[Lease, ...]
    demand: tuple[Demand, ...]
    shares: Mapping[str, int]
    parked: Closed | None
    waits: Mapping[str, Denied | None]
    learned: Learned | None = None

    @property
    def active(self) -> int:
        """Leases that count."""
        return sum(not lease.lent for lease in self.leases)

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return max(0, self.cap - self.active)

    def held_by(self, project: str) -> int:
        """How many leases of a project count."""
        return sum(one.project == project and not one.lent for one in self.leases)

    def wanted_by(self, project: str) -> int | None:
        """How many more a project would start; None: nobody knows."""
        wanted = [wish.wanted for wish in self.demand if wish.project == project]
        known = [number for number in wanted if number is not None]
        return sum(known) if len(known) == len(wanted) else None


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of pools themselves."""

    parked: Mapping[str, Parked] = field(default_factory=dict)
    overlays: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """The whole governor at one moment.

    `ended` are leases whose holders are dead, `stale` wishes that nobody stands behind any more.
    """

    now: datetime
    pools: tuple[PoolStatus, ...]
    on_machine: int
    machine_max_agents: int
    free_mb: int | None
    memory_floor_mb: int
    unseen: frozenset[str]
    ended: tuple[Lease, ...]
    stale: tuple[Demand, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return told(self)


def status(tx: Transaction, policy: Policy, here: Here) -> Status:
    """All pools that are configured, used, wanted or known; the default one always."""
    stored = Stored({one.pool: one for one in parked_pools(tx)}, all_overlays(tx))
    return status_of(survey(tx, policy, here), stored, tx.now(), policy, here)


def status_of(found: Survey, stored: Stored, now: datetime, policy: Policy, here: Here) -> Status:
    """The same from what was found."""
    look = _Look(found, stored, now, policy, here)
    used = {lease.pool for lease in found.leases} | {wish.pool for wish in found.demand}
    shut = {pool for pool, one in stored.parked.items() if closed(one, now)}
    known = {pool for pool in stored.overlays if policy.is_adaptive(pool)}
    names = sorted({DEFAULT_POOL, *policy.caps, *policy.tuned, *used, *shut, *known})
    return Status(
        now=now,
        pools=tuple(look.pool(name) for name in names),
        on_machine=count_on_machine((one for one in found.leases if not one.lent), here),
        machine_max_agents=policy.machine_max_agents,
        free_mb=here.free_mb,
        memory_floor_mb=policy.memory_floor_mb,
        unseen=found.unseen,
        ended=found.ended,
        stale=tuple(wish for wish in found.ended_demand if wish.wanted != 0),
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at everything, for one pool after another."""

    found: Survey
    stored: Stored
    now: datetime
    policy: Policy
    here: Here

    def pool(self, name: str) -> PoolStatus:
        wanted = tuple(wish for wish in self.found.demand if wish.pool == name)
        claimed = [Claim(wish, *_held(wish, self.found)) for wish in wanted]
        leases = tuple(lease for lease in self.found.leases if lease.pool == name)
        known = self._learned(name, leases, waiting=bool(wanted))
        cap = known.cap if known else self.policy.cap(name)
        turn = turn_at(self.now.timestamp(), self.policy.rotation_window_seconds)
        dealt = shares(cap, wishes_of(claimed).values(), turn)
        return PoolStatus(
            pool=name,
            cap=cap,
            knobs=self.policy.knobs(name),
            leases=leases,
            demand=wanted,
            shares=dealt,
            parked=closed(self.stored.parked.get(name), self.now),
            waits={project: self._no(name, project, wanted) for project in dealt},
            learned=known,
        )

    def _learned(self, pool: str, leases: Sequence[Lease], *, waiting: bool) -> Learned | None:
        if not self.policy.is_adaptive(pool):
            return None
        rows = [(one.project, one.task_id, one.lease) for one in leases]
        load = load_of(sum(not one.lent for one in leases), rows, waiting=waiting)
        text, ended = self.stored.overlays.get(pool, ""), silent_ends(self.found, pool)
        return learned(self.policy.knobs(pool), text, self.now, load, ended)

    def _no(self, pool: str, project: str, wanted: Iterable[Demand]) -> Denied | None:
        """What the next agent of a project would hear."""
        widths = [wish.width for wish in wanted if wish.project == project]
        ask = Ask("", project, pool, width=max(widths) if min(widths) > 0 else 0)
        parked, text = self.stored.parked.get(pool), self.stored.overlays.get(pool, "")
        scene = scene_of(ask, self.policy, self.here, self.found, parked, text, self.now)
        denied = decide(ask, scene, self.policy)
        if denied is None:
            return None
        since = closed_since(denied, self.found.leases, self.here, self.now)
        return replace(denied, since=denied.since or since)


def _held(wish: Demand, found: Survey) -> tuple[int, int]:
    """How many leases a project has: in the pool of a wish, and in all."""
    own = [one for one in found.leases if one.project == wish.project and not one.lent]
    return sum(one.pool == wish.pool for one in own), len(own)
