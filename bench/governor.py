"""Policies for caps that learn, in the simulator: the main scenario, and others."""

from __future__ import annotations

import os
import sys

from bench.harness import Figures
from hostler.sim.policies import CONTESTANTS
from hostler.sim.scenario import HELD_OUT, MAIN, SILENT, Scenario
from hostler.sim.tournament import tournament

# Enough to tell policies apart on each of the others, and minutes less.
SEEDS, OTHER_SEEDS = 20, 5


def run() -> Figures:
    """`sim.<policy>.<metric>`; those held back are `sim.<scenario>.<policy>.<metric>`."""
    main = _means(MAIN, SEEDS)
    others = {one.name: _means(one, OTHER_SEEDS) for one in (*HELD_OUT.values(), SILENT)}
    return {"seeds": SEEDS, "other_seeds": OTHER_SEEDS, "sim": {**main, **others}}


def _means(scenario: Scenario, seeds: int) -> dict[str, dict[str, float]]:
    standings = tournament(
        scenario,
        list(CONTESTANTS),
        seeds,
        jobs=os.cpu_count() or 1,
        progress=lambda done, total: _tell(scenario.name, done, total),
    )
    return {one.policy: one.means() for one in standings}


def _tell(name: str, done: int, total: int) -> None:
    if done % max(1, total // 4) == 0:
        print(f"  {name}: {done} of {total} days", file=sys.stderr, flush=True)
