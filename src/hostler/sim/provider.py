"""The provider: a bucket that refills as its hidden ceiling allows."""

from __future__ import annotations

import math
from random import Random

from hostler.sim.scenario import Scenario

MINUTE = 60.0


class Provider:
    """One pool's limits. Whoever asks is served or refused; the ceiling moves by the minute."""

    def __init__(self, scenario: Scenario, pool: int, seed: int) -> None:
        self._scenario, self._pool = scenario, pool
        self._minutes = _ceilings(scenario, pool, seed)
        self._per_agent = 1 / scenario.request_seconds
        self._depth = scenario.bucket_seconds
        self._at = 0.0
        self._tokens = self._rate(0) * self._depth

    def ceiling(self, now: float) -> float:
        """How many agents it takes now, with the noise."""
        return self._minutes[min(int(now / MINUTE), len(self._minutes) - 1)]

    def nominal(self, now: float) -> float:
        """The same without the noise."""
        return self._scenario.ceiling_at(self._pool, now)

    def ask(self, now: float) -> bool:
        """One request: whether it is served."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def used(self, now: float) -> float:
        """The part of its limit that is used up, as its headers say."""
        self._refill(now)
        most = self._rate(now) * self._depth
        return max(0.0, 1 - self._tokens / most) if most > 0 else 1.0

    def again_in(self, now: float) -> float | None:
        """After how many seconds it would serve one more; None: it does not know."""
        self._refill(now)
        rate = self._rate(now)
        return max(0.0, 1 - self._tokens) / rate if rate > 0 else None

    def _rate(self, now: float) -> float:
        return self.ceiling(now) * self._per_agent

    def _refill(self, now: float) -> None:
        """What flowed in since the last look, minute by minute; what is too much is lost."""
        while self._at < now:
            until = min(now, (int(self._at / MINUTE) + 1) * MINUTE)
            rate = self._rate(self._at)
            self._tokens = min(rate * self._depth, self._tokens + rate * (until - self._at))
            self._at = until


def _ceilings(scenario: Scenario, pool: int, seed: int) -> list[float]:
    """The ceiling of each minute. An outage has no noise."""
    roll = Random(f"{seed}:noise:{pool}")  # noqa: S311
    minutes = math.ceil(scenario.seconds / MINUTE)
    return [
        scenario.ceiling_at(pool, minute * MINUTE) * max(0.0, roll.gauss(1, scenario.noise))
        for minute in range(minutes)
    ]
