"""The edge: wait for a place, in the open, until it is granted or the wait is ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hostler.clock import Clock
from hostler.errors import StoreError
from hostler.governor.gates import Ask, Denied, Granted
from hostler.governor.holders import Here
from hostler.governor.leasing import acquire, preview
from hostler.governor.policy import Policy
from hostler.governor.wishing import demand, drop_demand
from hostler.store import Store

# A commit wakes us at once; that somebody died, or that memory is free, nobody commits.
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Waiter:
    """Waits for places. `policy` and `look` are asked again at each look; `tell` hears each no."""

    store: Store
    clock: Clock
    policy: Callable[[], Policy]
    look: Callable[[], Here]
    tell: Callable[[Denied], None]

    def place(self, ask: Ask) -> Granted:
        """A lease for this process. Whoever ends the wait leaves no wish behind."""
        try:
            while True:
                mark = self.store.change_mark()
                answer = self.now(ask)
                if isinstance(answer, Granted):
                    return answer
                self._until_it_looks_open(ask, answer, mark)
        except BaseException:
            with suppress(StoreError), self.store.write("admission", relaxed=True) as tx:
                drop_demand(tx, ask.pool, ask.project, self.look())
            raise

    def now(self, ask: Ask, *, wishing: bool = True) -> Granted | Denied:
        """A lease, or a no, and then a wish for one unless nobody waits."""
        here = self.look()
        with self.store.write("admission", relaxed=True) as tx:
            answer = acquire(tx, ask, self.policy(), here)
            if isinstance(answer, Granted):
                drop_demand(tx, ask.pool, ask.project, here)
            elif wishing:
                given = {"weight": ask.weight, "width": ask.width}
                demand(tx, ask.pool, ask.project, here, wanted=1, **given)
            return answer

    def _until_it_looks_open(self, ask: Ask, denied: Denied | None, mark: int) -> None:
        """On snapshots, which wake nobody; but not past the time to say the wish again."""
        renew_at = self.clock.monotonic() + self.policy().demand_ttl_seconds / 3
        while denied is not None and self.clock.monotonic() < renew_at:
            self.tell(denied)
            mark = self.store.wait_for_change(mark, self._nap(denied))
            with self.store.read() as tx:
                denied = preview(tx, ask, self.policy(), self.look())

    def _nap(self, denied: Denied) -> float:
        if denied.opens_at is None:
            return LOOK_SECONDS
        seconds = (denied.opens_at - self.clock.now()).total_seconds()
        return min(LOOK_SECONDS, max(0.0, seconds))
