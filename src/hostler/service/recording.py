"""What the service notes of itself once a minute: each pool as it is, and looks that are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor import look_around, status
from hostler.governor.status import PoolStatus
from hostler.model import stamp
from hostler.service.policies import Policies
from hostler.store import Store
from hostler.store.governor import PoolSample, add_samples, samples_since
from hostler.store.repositories import Polls, add_polls

SCOPE = "records"
# A pool that stays as it is makes a sample so often: who reads them sees that somebody looked.
STILL_HERE = timedelta(minutes=10)


def sample_of(pool: PoolStatus, now: datetime) -> PoolSample:
    """A pool as it is."""
    known = pool.learned
    return PoolSample(
        pool=pool.pool,
        at=stamp(now),
        ceiling=known.knobs.hard_max if known else pool.knobs.max_global,
        cap=pool.cap,
        active=pool.active,
        breaker=(known.overlay.breaker_state.value if known else "") or "closed",
        parked=pool.parked is not None,
    )


def worth_keeping(seen: Sequence[PoolSample], recent: Sequence[PoolSample]) -> list[PoolSample]:
    """Samples that say something new, after those that were kept lately, oldest first. Pure."""
    last = {one.pool: replace(one, at="") for one in recent}
    return [one for one in seen if last.get(one.pool) != replace(one, at="")]


class Recorder:
    """Writes it down; where nothing is new, it writes nothing."""

    def __init__(self, store: Store, policies: Policies) -> None:
        self._store = store
        self._policies = policies

    def record(self, polls: Mapping[str, Polls]) -> None:
        """Note the pools, and looks by project."""
        policy, here = self._policies.current(), look_around()
        with self._store.read() as tx:
            now = tx.now()
            seen = [sample_of(pool, now) for pool in status(tx, policy, here).pools]
            kept = worth_keeping(seen, samples_since(tx, stamp(now - STILL_HERE)))
        if not kept and not polls:
            return
        # Losing the last of it in a power cut does no harm.
        with self._store.write(SCOPE, relaxed=True) as tx:
            if kept:
                add_samples(tx, kept)
            for project, more in polls.items():
                add_polls(tx, project, more)
