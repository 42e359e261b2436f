"""How much a campaign does, and from which seed: everything that can be turned, in one place."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

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
    poll_seconds: int = 90
    # Agents at once: over all repositories, and in one.
    together: int = 4
    in_one: int = 2
    # Virtual seconds by which each new service's clock may be wrong.
    skew: float = 100.0


FULL = Size("full", 20, 500, 100, 500, restarts=8, abreast=40, patience=7200.0)
SMALL = Size("small", 4, 12, 4, 20, restarts=1, abreast=12, patience=240.0)


def seed() -> int:
    """The one that was asked for, or any."""
    return int(os.environ.get(SEED_VARIABLE) or random.randrange(10**6))
