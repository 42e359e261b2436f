"""Run policies on scenarios in parallel, and report the results."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from statistics import mean
from typing import Any

from hostler.sim.metrics import METRICS, Sample
from hostler.sim.policies import CONTESTANTS
from hostler.sim.scenario import Scenario
from hostler.sim.world import World

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One policy on one seed."""

    policy: str
    seed: int
    metrics: dict[str, float]
    moments: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """One policy over all seeds, in the order of the seeds."""

    policy: str
    entries: tuple[Entry, ...]

    def means(self) -> dict[str, float]:
        """Each metric that was measured, on average."""
        first = self.entries[0].metrics
        return {
            name: mean(one.metrics[name] for one in self.entries)
            for name in METRICS
            if name in first
        }


def tournament(
    scenario: Scenario,
    policies: Sequence[str],
    seeds: int,
    *,
    jobs: int = 1,
    progress: Progress = lambda _done, _total: None,
) -> list[PolicyResult]:
    """Every policy on the seeds from 1 on. The order of the work changes nothing."""
    played: dict[tuple[str, int], Entry] = {}
    total = len(policies) * seeds
    tickets = [(scenario, policy, seed) for seed in range(1, seeds + 1) for policy in policies]
    for entry in _played(tickets, jobs):
        played[entry.policy, entry.seed] = entry
        progress(len(played), total)
    return [
        PolicyResult(policy, tuple(played[policy, seed] for seed in range(1, seeds + 1)))
        for policy in policies
    ]


def play(ticket: tuple[Scenario, str, int]) -> Entry:
    """One day."""
    scenario, policy, seed = ticket
    tally = World(scenario, CONTESTANTS[policy], seed).run()
    return Entry(policy, seed, tally.metrics(), tuple(tally.moments))


def _played(tickets: Sequence[tuple[Scenario, str, int]], jobs: int) -> Iterator[Entry]:
    if jobs <= 1 or len(tickets) == 1:
        yield from map(play, tickets)
        return
    helpers = ProcessPoolExecutor(min(jobs, len(tickets)), initializer=_leave_ctrl_c_to_us)
    try:
        for done in as_completed([helpers.submit(play, ticket) for ticket in tickets]):
            yield done.result()
    finally:
        helpers.shutdown(cancel_futures=True)


def _leave_ctrl_c_to_us() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# What was not measured.
_NOTHING = "–"
_DECIMALS = {"utilisation": 3, "worst_share": 3, "recovery_min": 1, "idle_slot_hours": 1}


def table(standings: Sequence[PolicyResult]) -> str:
    """A line for each policy, a column for each metric."""
    rows = [["policy", *METRICS]]
    for standing in standings:
        means = standing.means()
        rows.append([standing.policy, *(_shown(name, means.get(name)) for name in METRICS)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _shown(name: str, value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.{_DECIMALS.get(name, 0)}f}"


def parameters(scenario: Scenario) -> str:
    """Everything that the model was told."""
    return "\n".join(f"{name} = {value}" for name, value in scenario.model_dump().items())


def as_json(scenario: Scenario, seeds: int, standings: Sequence[PolicyResult]) -> dict[str, Any]:
    """The same, with the numbers of each seed."""
    return {
        "scenario": scenario.model_dump(),
        "seeds": seeds,
        "policies": {
            one.policy: {
                "mean": one.means(),
                "by_seed": [{"seed": entry.seed, **entry.metrics} for entry in one.entries],
            }
            for one in standings
        },
    }
