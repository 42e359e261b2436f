"""What is counted while a simulated day goes by, and what it comes to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hostler.governor.gates import ProjectDemand, shares
from hostler.sim.scenario import Scenario

# Who got less than its part is asked over such times: shorter ones are noise.
SHARE_WINDOW = 600.0
# The rise is over once so much of what could run does run.
RECOVERED = 0.9
HOUR = 3600.0

METRICS = (
    "utilisation",
    "limits_per_1000",
    "deaths_per_1000",
    "idle_slot_hours",
    "recovery_min",
    "worst_share",
    "tasks",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of the plot, all pools together."""

    seconds: float
    ceiling: float
    cap: int
    active: int


@dataclass
class MetricsCollector:
    """Counters of one run."""

    scenario: Scenario
    dispatches: int = 0
    limits: int = 0
    deaths: int = 0
    tasks: int = 0
    served: int = 0
    usable: float = 0.0
    idle: float = 0.0
    recovered_at: float | None = None
    moments: list[Sample] = field(default_factory=list)
    _rise: float | None = field(init=False)
    _owed: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))
    _got: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self._rise = self.scenario.rise

    def answered(self, now: float, project: str, worth: float) -> None:
        """One request was served, which is worth so many seconds of its agent's place."""
        self.served += 1
        self._got[int(now / SHARE_WINDOW), project] += worth

    def looked(self, now: float, ceiling: float, wishes: list[ProjectDemand], turn: int) -> None:
        """One pool, as it is until the next look."""
        span = self.scenario.look_seconds
        active = sum(wish.active for wish in wishes)
        could = min(ceiling, sum(wish.total for wish in wishes))
        self.usable += could * span
        self.idle += max(0.0, could - active) * span
        window = int(now / SHARE_WINDOW)
        for project, part in shares(round(ceiling), wishes, turn).items():
            self._owed[window, project] += part * span

    def seen(self, simulated_time: Sample, could: float) -> None:
        """All pools together, for the plot and the recovery."""
        # In an outage nothing could run, and nothing has recovered.
        risen = self._rise is not None and simulated_time.seconds >= self._rise and could > 0
        if risen and self.recovered_at is None and simulated_time.active >= RECOVERED * could:
            self.recovered_at = simulated_time.seconds
        if not self.moments or simulated_time.seconds - self.moments[-1].seconds >= 60:
            self.moments.append(simulated_time)

    def metrics(self) -> dict[str, float]:
        """The numbers of one run, without a recovery where there is none to measure."""
        starts = max(1, self.dispatches)
        return {
            "utilisation": self.served * self.scenario.request_seconds / max(1.0, self.usable),
            "limits_per_1000": 1000 * self.limits / starts,
            "deaths_per_1000": 1000 * self.deaths / starts,
            "idle_slot_hours": self.idle / HOUR,
            **self._recovery(),
            "worst_share": self._worst_share(),
            "tasks": float(self.tasks),
        }

    def _recovery(self) -> dict[str, float]:
        """One that never came lasted until the end."""
        if self._rise is None:
            return {}
        end = self.scenario.seconds if self.recovered_at is None else self.recovered_at
        return {"recovery_min": (end - self._rise) / 60}

    def _worst_share(self) -> float:
        """The project that got least of its part. More than that at times makes up for nothing."""
        owed: dict[str, float] = defaultdict(float)
        got: dict[str, float] = defaultdict(float)
        for (window, project), part in self._owed.items():
            owed[project] += part
            got[project] += min(part, self._got[window, project])
        return min((got[name] / part for name, part in owed.items() if part > 0), default=1.0)
