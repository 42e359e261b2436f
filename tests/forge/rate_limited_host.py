"""A host that counts as GitHub does: what arrived, when, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostler.forge.github.rate_limit.limits import ReportedLimit, RequestCaps, RequestKind


@dataclass
class Host:
    """One account there. `ours` is what we used of its present hour."""

    limit: int
    now: float = 0.0
    used: int = 0
    ours: int = 0
    reset: float = 0.0
    at_once: int = 0
    arrived: list[tuple[float, RequestKind]] = field(default_factory=list)

    def renew(self) -> None:
        if self.now >= self.reset:
            self.used = self.ours = 0
            self.reset = int(self.now) + 3600

    def arrive(self, kind: RequestKind, *, changed: bool) -> ReportedLimit:
        """Count a request; what its answer says of the hour."""
        self.renew()
        self.arrived.append((self.now, kind))
        self.used += changed
        self.ours += changed
        return self.say()

    def others_use(self, amount: int) -> None:
        self.renew()
        self.used = min(self.used + amount, self.limit)

    def say(self) -> ReportedLimit:
        # The `Date` of an answer has whole seconds.
        ahead = min(max(self.reset - int(self.now), 0.0), 3600.0)
        return ReportedLimit(self.limit, max(self.limit - self.used, 0), ahead)

    def points(self) -> int:
        return sum(kind.points for at, kind in self.arrived if at > self.now - 60)

    def created(self, seconds: float) -> int:
        found = [at for at, kind in self.arrived if kind is RequestKind.CREATION]
        return sum(at > self.now - seconds for at in found)

    def check(self, caps: RequestCaps) -> None:
        """Nothing is above our share."""
        assert self.points() <= caps.share(caps.points_per_minute)
        assert self.created(60) <= caps.share(caps.creations_per_minute)
        assert self.created(3600) <= caps.share(caps.creations_per_hour)
        assert self.at_once <= caps.share(caps.concurrent)
        assert self.ours <= caps.share(self.limit)
