"""What pools have learned, told when it is something else."""

from __future__ import annotations

from hostler.governor.learned import control_of
from hostler.governor.overlay import Breaker, Knobs, Overlay
from hostler.governor.remembering import from_text
from hostler.service.journal import Journal
from hostler.service.policies import Policies
from hostler.store import Store
from hostler.store.governor import all_overlays
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics

# As a number for charts: how much it holds back.
_HELD = {Breaker.CLOSED: 0, Breaker.HALF_OPEN: 1, Breaker.OPEN: 2}


class LearnedCaps:
    """Looks at what is stored; costs nothing where nothing is learned."""

    def __init__(self, store: Store, policies: Policies, journal: Journal) -> None:
        self._store = store
        self._policies = policies
        self._journal = journal
        self._caps: dict[str, int] = {}
        self._breakers: dict[str, Breaker] = {}
        self._damaged: set[str] = set()

    def look(self) -> None:
        """Tell what has changed since the last look. The first one only counts."""
        policy = self._policies.current()
        if not policy.adapts:
            return
        with self._store.read() as tx:
            found = all_overlays(tx)
        for pool, text in found.items():
            if policy.is_adaptive(pool):
                self._tell(pool, policy.knobs(pool), from_text(text))

    def _tell(self, pool: str, knobs: Knobs, overlay: Overlay) -> None:
        cap, state = control_of(knobs).cap(knobs, overlay), overlay.breaker_state
        metrics.set(names.GOVERNOR_CAP, cap, pool=pool)
        metrics.set(names.GOVERNOR_BREAKER, _HELD[state], pool=pool)
        metrics.set(names.GOVERNOR_RATE_LIMIT_EVENTS, overlay.rate_limit_events, pool=pool)
        before = self._caps.get(pool, cap)
        if cap != before:
            self._journal.cap_changed(pool, before, cap, overlay.rate_limit_events)
        if state is not self._breakers.get(pool, state):
            self._journal.breaker_changed(pool, state.value or "closed")
        self._caps[pool], self._breakers[pool] = cap, state
        self._tell_damage(pool, damaged=overlay.damaged_at is not None)

    def _tell_damage(self, pool: str, *, damaged: bool) -> None:
        """Once, also of what was damaged when this began: nobody may have heard of it."""
        if damaged and pool not in self._damaged:
            self._journal.damaged(pool)
        (self._damaged.add if damaged else self._damaged.discard)(pool)
