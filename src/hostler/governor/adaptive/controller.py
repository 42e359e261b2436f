"""Choose the policy of a pool, and apply what is learned to its stored state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hostler.governor.adaptive.aimd import Aimd
from hostler.governor.adaptive.model import (
    AdaptivePolicy,
    Announced,
    ClosedGate,
    LeaseSlot,
    PoolConfig,
    PoolLoad,
    PoolState,
    Report,
)
from hostler.governor.adaptive.served import Served
from hostler.governor.adaptive.state import dump_state, load_state, sanitize
from hostler.governor.policy import Policy, pool_key
from hostler.store import Transaction
from hostler.store.governor import (
    Standing,
    all_overlays,
    find_overlay,
    put_overlay,
    standing,
    whose,
)


class OptionalPolicy:
    """While `adaptive` is off, the identity; while it is on, the policy on believable moments."""

    def __init__(self, policy: AdaptivePolicy) -> None:
        self._policy = policy

    def cap(self, knobs: PoolConfig, overlay: PoolState) -> int:
        return self._policy.cap(knobs, overlay) if knobs.adaptive else knobs.max_global

    def passed(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        if not knobs.adaptive:
            return overlay
        return self._policy.passed(knobs, sanitize(knobs, overlay, now), now, load)

    def shut(self, knobs: PoolConfig, overlay: PoolState, now: datetime) -> ClosedGate | None:
        if not knobs.adaptive:
            return None
        return self._policy.shut(knobs, sanitize(knobs, overlay, now), now)

    def admitted(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, slot: LeaseSlot, roll: float
    ) -> PoolState:
        if not knobs.adaptive:
            return overlay
        return self._policy.admitted(knobs, sanitize(knobs, overlay, now), now, slot, roll)

    def limited(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, report: Report
    ) -> PoolState:
        if not knobs.adaptive:
            return overlay
        return self._policy.limited(knobs, sanitize(knobs, overlay, now), now, report)

    def announced(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, word: Announced
    ) -> PoolState:
        if not knobs.adaptive:
            return overlay
        return self._policy.announced(knobs, sanitize(knobs, overlay, now), now, word)

    def answered(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, slot: LeaseSlot, requests: int
    ) -> PoolState:
        if not knobs.adaptive:
            return overlay
        return self._policy.answered(knobs, sanitize(knobs, overlay, now), now, slot, requests)

    def released(
        self,
        knobs: PoolConfig,
        overlay: PoolState,
        now: datetime,
        slot: LeaseSlot,
        *,
        reached: bool,
    ) -> PoolState:
        if not knobs.adaptive:
            return overlay
        overlay = sanitize(knobs, overlay, now)
        return self._policy.released(knobs, overlay, now, slot, reached=reached)


# What is not known to this program is read as the policy that everybody knows.
DEFAULT_POLICY = "aimd"


POLICIES: Mapping[str, AdaptivePolicy] = {
    "aimd": OptionalPolicy(Aimd()),
    "served": OptionalPolicy(Served()),
}


@dataclass(frozen=True, slots=True)
class AdaptivePool:
    """What is known of an adaptive pool at a moment, with what time alone has changed.

    `stored` is the text that it came from.
    """

    knobs: PoolConfig
    overlay: PoolState
    stored: str
    now: datetime

    @property
    def control(self) -> AdaptivePolicy:
        """The policy of the pool."""
        return policy_for(self.knobs)

    @property
    def cap(self) -> int:
        """How many agents the pool takes now."""
        return self.control.cap(self.knobs, self.overlay)

    @property
    def shut(self) -> ClosedGate | None:
        """The gate that is closed for everybody, if one is."""
        return self.control.shut(self.knobs, self.overlay, self.now)

    def after_start(self, slot: LeaseSlot, roll: float) -> str:
        """What is to be stored once an agent has its place."""
        return dump_state(self.control.admitted(self.knobs, self.overlay, self.now, slot, roll))


def adaptive_pool(
    knobs: PoolConfig, stored: str, now: datetime, load: PoolLoad, ended: Iterable[LeaseSlot] = ()
) -> AdaptivePool:
    """A pool at a moment. `ended`: whose programs are gone, with nobody left to say more."""
    control, overlay = policy_for(knobs), load_state(stored)
    for slot in ended:
        overlay = control.released(knobs, overlay, now, slot, reached=False)
    return AdaptivePool(knobs, control.passed(knobs, overlay, now, load), stored, now)


def policy_for(knobs: PoolConfig) -> AdaptivePolicy:
    """The policy that the operator chose."""
    return POLICIES.get(knobs.policy, POLICIES[DEFAULT_POLICY])


def slot_of(project: str, task: str, lease: str) -> LeaseSlot:
    """Whose agent holds a lease. A program without a task is known by its lease alone."""
    return LeaseSlot(project, task or lease)


def pool_load(
    active: int,
    rows: Sequence[tuple[str, str, str]],
    *,
    waiting: bool,
    heard: Iterable[LeaseSlot] = (),
) -> PoolLoad:
    """What a pool carries, by the project, task and name of each lease; and who was just heard."""
    # Only the runs of tasks are followed.
    mute = slots_in(row for row in rows if not row[1])
    return PoolLoad(active, waiting, slots_in(rows) | frozenset(heard), mute)


def slots_in(rows: Iterable[tuple[str, str, str]]) -> frozenset[LeaseSlot]:
    """The same for many, each with its project, task and lease."""
    return frozenset(slot_of(*row) for row in rows)


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """What was heard of one agent since the last time.

    `answers`: healthy responses of its provider. `over`: its lease has ended, or counts no more;
    `reached`: its provider ever answered it.
    """

    slot: LeaseSlot
    limits: tuple[Report, ...] = ()
    words: tuple[Announced, ...] = ()
    answers: int = 0
    over: bool = False
    reached: bool = False


def apply_report(tx: Transaction, policy: Policy, pool: str, news: ProviderReport) -> None:
    """Let a pool learn from one agent. Nothing is read or written where nothing is learned."""
    pool = pool_key(pool)
    knobs = policy.knobs(pool)
    if knobs.adaptive:
        counts = standing(tx, pool, news.slot.project, None)
        # What time has changed comes first: a measure that begins anew must not lose this news. Who
        # is heard of is still there, though its lease may have gone a moment ago.
        overlay = _passed(tx, knobs, pool, counts, frozenset({news.slot}))
        store_state(tx, pool, counts.overlay, after(knobs, overlay, tx.now(), news))


def read_pool(tx: Transaction, policy: Policy, pool: str) -> None:
    """Let a pool note what runs, and what time alone has changed."""
    pool = pool_key(pool)
    knobs = policy.knobs(pool)
    if knobs.adaptive:
        counts = standing(tx, pool, "", None)
        store_state(tx, pool, counts.overlay, _passed(tx, knobs, pool, counts))


def after(knobs: PoolConfig, overlay: PoolState, now: datetime, news: ProviderReport) -> PoolState:
    """What is known after the news of one agent. Pure."""
    control = policy_for(knobs)
    for word in news.words:
        overlay = control.announced(knobs, overlay, now, word)
    # A refusal before an answer: what came first in one look is not known.
    for report in news.limits:
        overlay = control.limited(knobs, overlay, now, report)
    if news.answers > 0:
        overlay = control.answered(knobs, overlay, now, news.slot, news.answers)
    if news.over:
        overlay = control.released(knobs, overlay, now, news.slot, reached=news.reached)
    return overlay


def _passed(
    tx: Transaction,
    knobs: PoolConfig,
    pool: str,
    counts: Standing,
    heard: frozenset[LeaseSlot] = frozenset(),
) -> PoolState:
    load = pool_load(counts.in_pool, whose(tx, pool), waiting=counts.wishes > 0, heard=heard)
    return policy_for(knobs).passed(knobs, load_state(counts.overlay), tx.now(), load)


def reset(tx: Transaction, pool: str) -> bool:
    """Forget what was learned of a pool; whether anything was known."""
    pool = pool_key(pool)
    known = bool(find_overlay(tx, pool))
    if known:
        put_overlay(tx, pool, "")
    return known


def reseed(tx: Transaction, policy: Policy, pool: str) -> None:
    """Start again from the operator's cap of a pool, and so do accounts that have it from there.

    Events and the breaker stay. It grows from now on: time before it was set is not its own.
    """
    pool = pool_key(pool)
    for name in (pool, *policy.heirs(pool, all_overlays(tx))):
        stored = find_overlay(tx, name)
        anew = replace(load_state(stored), dynamic_cap=policy.cap(name), last_probe_at=tx.now())
        store_state(tx, name, stored, anew)


def store_state(tx: Transaction, pool: str, stored: str, overlay: PoolState) -> None:
    """Store what is known now, if that is something else."""
    text = dump_state(overlay)
    if text != stored:
        put_overlay(tx, pool, text)
