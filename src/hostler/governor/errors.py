"""What this room refuses.

HostlerError
├── LeaseLost        an agent has no place, or nobody could hold it
└── NoPlace          a place was asked for, and none is free
"""

from __future__ import annotations

from hostler.errors import HostlerError
from hostler.governor.gates import Denied


class LeaseLost(HostlerError):
    """An agent has no place: it must not be started."""

    def __init__(self, lease: str, why: str) -> None:
        super().__init__(f"There is no place for {lease}: {why}.", safe="No agent was started.")
        self.lease = lease


class NoPlace(HostlerError):
    """A place was asked for, and none is free now."""

    # As a program says that it may work later (sysexits).
    exit_code = 75

    def __init__(self, denied: Denied) -> None:
        super().__init__(denied.what, safe="Nothing was started.", remedy=denied.remedy)
        self.denied = denied
