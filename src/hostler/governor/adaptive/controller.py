"""Choose the policy of a pool, and apply events to its stored state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hostler.governor.adaptive.aimd import Aimd
from hostler.governor.adaptive.model import (
    AdaptivePolicy,
    ClosedGate,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
)
from hostler.governor.adaptive.served import Served
from hostler.governor.adaptive.state import dump_state, load_state, sanitize
from hostler.governor.policy import Policy, pool_key
from hostler.store import Transaction
from hostler.store.governor import (
    LeaseCounts,
    all_pool_states,
    count_leases,
    find_pool_state,
    lease_owners,
    put_pool_state,
)


class OptionalPolicy:
    """A policy that does nothing while `adaptive` is off, and otherwise gets sanitised state."""

    def __init__(self, policy: AdaptivePolicy) -> None:
        self._policy = policy

    def cap(self, config: PoolConfig, state: PoolState) -> int:
        return self._policy.cap(config, state) if config.adaptive else config.max_global

    def advance(
        self, config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        if not config.adaptive:
            return state
        return self._policy.advance(config, sanitize(config, state, now), now, load)

    def closed_gate(self, config: PoolConfig, state: PoolState, now: datetime) -> ClosedGate | None:
        if not config.adaptive:
            return None
        return self._policy.closed_gate(config, sanitize(config, state, now), now)

    def on_start(
        self, config: PoolConfig, state: PoolState, now: datetime, slot: LeaseSlot, fraction: float
    ) -> PoolState:
        if not config.adaptive:
            return state
        return self._policy.on_start(config, sanitize(config, state, now), now, slot, fraction)

    def on_limit(
        self, config: PoolConfig, state: PoolState, now: datetime, report: LimitReport
    ) -> PoolState:
        if not config.adaptive:
            return state
        return self._policy.on_limit(config, sanitize(config, state, now), now, report)

    def on_announcement(
        self, config: PoolConfig, state: PoolState, now: datetime, announcement: LimitAnnouncement
    ) -> PoolState:
        if not config.adaptive:
            return state
        return self._policy.on_announcement(config, sanitize(config, state, now), now, announcement)

    def on_answers(
        self, config: PoolConfig, state: PoolState, now: datetime, slot: LeaseSlot, requests: int
    ) -> PoolState:
        if not config.adaptive:
            return state
        return self._policy.on_answers(config, sanitize(config, state, now), now, slot, requests)

    def on_release(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        *,
        reached: bool,
    ) -> PoolState:
        if not config.adaptive:
            return state
        state = sanitize(config, state, now)
        return self._policy.on_release(config, state, now, slot, reached=reached)


# Used for policy names that this program does not know.
DEFAULT_POLICY = "aimd"


POLICIES: Mapping[str, AdaptivePolicy] = {
    "aimd": OptionalPolicy(Aimd()),
    "served": OptionalPolicy(Served()),
}


@dataclass(frozen=True, slots=True)
class AdaptivePool:
    """The state of an adaptive pool at a time, after what time alone changes.

    `stored` is the text that it was read from.
    """

    config: PoolConfig
    state: PoolState
    stored: str
    now: datetime

    @property
    def control(self) -> AdaptivePolicy:
        """Return the policy of the pool."""
        return policy_for(self.config)

    @property
    def cap(self) -> int:
        """Return how many agents the pool takes now."""
        return self.control.cap(self.config, self.state)

    @property
    def closed_gate(self) -> ClosedGate | None:
        """Return the gate that is closed for all starts, or None."""
        return self.control.closed_gate(self.config, self.state, self.now)

    def state_after_start(self, slot: LeaseSlot, fraction: float) -> str:
        """Return the text to store once an agent has its lease."""
        return dump_state(self.control.on_start(self.config, self.state, self.now, slot, fraction))


def adaptive_pool(
    config: PoolConfig, stored: str, now: datetime, load: PoolLoad, ended: Iterable[LeaseSlot] = ()
) -> AdaptivePool:
    """Build a pool's state at a time. `ended` are slots of pruned programs."""
    control, state = policy_for(config), load_state(stored)
    for slot in ended:
        state = control.on_release(config, state, now, slot, reached=False)
    return AdaptivePool(config, control.advance(config, state, now, load), stored, now)


def policy_for(config: PoolConfig) -> AdaptivePolicy:
    """Return the policy that the operator chose."""
    return POLICIES.get(config.policy, POLICIES[DEFAULT_POLICY])


def slot_of(project: str, task: str, lease: str) -> LeaseSlot:
    """Return the slot of a lease's agent. A program without a task is known by its lease."""
    return LeaseSlot(project, task or lease)


def make_pool_load(
    active: int,
    rows: Sequence[tuple[str, str, str]],
    *,
    waiting: bool,
    reporting: Iterable[LeaseSlot] = (),
) -> PoolLoad:
    """Build a pool's load from (project, task, lease) rows. `reporting`: it has just reported."""
    # Only runs of tasks have their output followed.
    unobserved = slots_in(row for row in rows if not row[1])
    return PoolLoad(active, waiting, slots_in(rows) | frozenset(reporting), unobserved)


def slots_in(rows: Iterable[tuple[str, str, str]]) -> frozenset[LeaseSlot]:
    """Return the slots of (project, task, lease) rows."""
    return frozenset(slot_of(*row) for row in rows)


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """What one agent met since its last report.

    `answers`: healthy responses of its provider. `ended`: its lease has ended or counts no more.
    `reached`: its provider answered it at least once.
    """

    slot: LeaseSlot
    limits: tuple[LimitReport, ...] = ()
    announcements: tuple[LimitAnnouncement, ...] = ()
    answers: int = 0
    ended: bool = False
    reached: bool = False


def apply_report(tx: Transaction, policy: Policy, pool: str, report: ProviderReport) -> None:
    """Apply a report to an adaptive pool. Other pools are neither read nor written."""
    pool = pool_key(pool)
    config = policy.pool_config(pool)
    if config.adaptive:
        counts = count_leases(tx, pool, report.slot.project, None)
        # Apply the time first: a measuring window that starts now must not lose this report. The
        # agent is still there, though its lease may have ended a moment ago.
        state = _advance(tx, config, pool, counts, frozenset({report.slot}))
        store_state(tx, pool, counts.state, apply_events(config, state, tx.now(), report))


def read_pool(tx: Transaction, policy: Policy, pool: str) -> None:
    """Store what time alone has changed in a pool, and what runs."""
    pool = pool_key(pool)
    config = policy.pool_config(pool)
    if config.adaptive:
        counts = count_leases(tx, pool, "", None)
        store_state(tx, pool, counts.state, _advance(tx, config, pool, counts))


def apply_events(
    config: PoolConfig, state: PoolState, now: datetime, report: ProviderReport
) -> PoolState:
    """Return the state after one agent's report. Pure."""
    control = policy_for(config)
    for announcement in report.announcements:
        state = control.on_announcement(config, state, now, announcement)
    # Refusals before answers: their order within one report is not known.
    for limit in report.limits:
        state = control.on_limit(config, state, now, limit)
    if report.answers > 0:
        state = control.on_answers(config, state, now, report.slot, report.answers)
    if report.ended:
        state = control.on_release(config, state, now, report.slot, reached=report.reached)
    return state


def _advance(
    tx: Transaction,
    config: PoolConfig,
    pool: str,
    counts: LeaseCounts,
    reporting: frozenset[LeaseSlot] = frozenset(),
) -> PoolState:
    load = make_pool_load(
        counts.in_pool, lease_owners(tx, pool), waiting=counts.demand_count > 0, reporting=reporting
    )
    return policy_for(config).advance(config, load_state(counts.state), tx.now(), load)


def reset(tx: Transaction, pool: str) -> bool:
    """Forget what was learned of a pool. Return False if nothing was."""
    pool = pool_key(pool)
    known = bool(find_pool_state(tx, pool))
    if known:
        put_pool_state(tx, pool, "")
    return known


def reset_cap(tx: Transaction, policy: Policy, pool: str) -> None:
    """Restart from the operator's cap, also in accounts that inherit it.

    Events and the breaker stay. The cap grows from now on.
    """
    pool = pool_key(pool)
    for name in (pool, *policy.inheriting_pools(pool, all_pool_states(tx))):
        stored = find_pool_state(tx, name)
        state = replace(load_state(stored), dynamic_cap=policy.cap(name), last_probe_at=tx.now())
        store_state(tx, name, stored, state)


def store_state(tx: Transaction, pool: str, stored: str, state: PoolState) -> None:
    """Store a pool's state if it has changed."""
    text = dump_state(state)
    if text != stored:
        put_pool_state(tx, pool, text)
