"""How much a campaign does, and from which seed: everything that can be turned, in one place."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace

SEED_VARIABLE = "HOSTLER_SOAK_SEED"


@dataclass(frozen=True)
class Size:
    """One campaign. `tasks`, `kills` and `faults` are the least that must really have happened."""

    name: str
    repositories: int
    tasks: int
    kills: int
    faults: int
    restarts: int
    # Stories that are told at the same time.
    abreast: int
    # Real seconds after which a campaign that does not end has failed.
    patience: float
    # Virtual seconds in a real one: for the service and for GitHub alike.
    speed: float = 30.0
    poll_seconds: int = 180
    # Agents at once: over all repositories, and in one.
    together: int = 4
    in_one: int = 2
    # All kills and faults are due when so much of the stories is told: the rest ends in peace.
    well_on: float = 0.85
    # Virtual seconds by which each new service's clock may be wrong.
    skew: float = 100.0
    # How agents behave in the first stories; empty: each behaviour once.
    kinds: tuple[str, ...] = ()


FULL = Size("full", 20, 500, 100, 500, restarts=8, abreast=60, patience=7200.0)
SMALL = replace(
    FULL,
    name="small",
    repositories=4,
    tasks=10,
    kills=4,
    faults=20,
    restarts=1,
    abreast=10,
    patience=240.0,
    # Few repositories can be looked at often, and most of its time would be waiting.
    speed=40.0,
    poll_seconds=40,
    well_on=0.5,
    # So narrow that it is felt.
    together=2,
    in_one=1,
)
# For every run of the tests: one kill of each kind, a restart, and a few faults.
TINY = replace(
    SMALL,
    name="tiny",
    repositories=2,
    tasks=4,
    kills=3,
    faults=8,
    abreast=4,
    kinds=("forks", "asks", "hangs", "fails"),
)


def seed(default: int | None = None) -> int:
    """Return the seed that was asked for, else the default, else a random one."""
    asked = os.environ.get(SEED_VARIABLE)
    if asked or default is None:
        return int(asked or random.randrange(10**6))
    return default
