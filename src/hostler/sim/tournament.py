"""All policies on all seeds, on all cores."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from statistics import mean

from hostler.sim.policies import CONTESTANTS
from hostler.sim.scenario import Scenario
from hostler.sim.tally import METRICS, Moment
from hostler.sim.world import World

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One policy on one seed."""

    policy: str
    seed: int
    metrics: dict[str, float]
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Standing:
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
) -> list[Standing]:
    """Every policy on the seeds from 1 on. The order of the work changes nothing."""
    played: dict[tuple[str, int], Entry] = {}
    total = len(policies) * seeds
    tickets = [(scenario, policy, seed) for seed in range(1, seeds + 1) for policy in policies]
    for entry in _played(tickets, jobs):
        played[entry.policy, entry.seed] = entry
        progress(len(played), total)
    return [
        Standing(policy, tuple(played[policy, seed] for seed in range(1, seeds + 1)))
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
