"""What a gate is, for everything that lists gates: admission, `why`, `wrap`, docs and UIs.

A gate is one function and one row of this type. The rows of a home are in
`service/scheduling/gates.py`, those of a pool in `governor/gates.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class GateScope(StrEnum):
    """Where a gate counts: in one home, or in a pool of agents that homes share."""

    HOME = "home"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class GateInfo:
    """One gate. `check` returns a denial, or None to let a start pass.

    `check` is None for a gate that is not a function of the snapshot: free workers and the turn.
    `is_polled`: it can open without a commit, so it is checked again after a while.
    """

    name: str
    scope: GateScope
    label: str
    meaning: str
    remedy: str
    check: Callable[..., Any] | None = None
    is_polled: bool = False


# Label, meaning and what to do, by the name of a gate of the pool, in the order of evaluation.
_POOL_GATE_TEXTS = {
    "parked": (
        "Pool parked",
        "An operator or a rate limit closed the pool.",
        "Wait, or run `hostler governor resume`.",
    ),
    "breaker": (
        "Circuit breaker open",
        "The provider refused too often; one agent tries again after a while.",
        "Wait, or run `hostler governor reset`.",
    ),
    "limit": ("Rate limit", "The provider asked to wait.", "Wait."),
    "machine": (
        "Machine full",
        "`[runtime] machine_max_agents` agents are running on this machine.",
        "Wait, or raise the limit.",
    ),
    "memory": (
        "Not enough memory",
        "Less memory is free than `[runtime] memory_floor_mb`.",
        "End what uses memory, or lower the floor.",
    ),
    "cap": (
        "Pool full",
        "As many agents run in the pool as its cap allows.",
        "Wait, or raise the cap with `hostler governor set`.",
    ),
    "width": (
        "Project full",
        "The project runs as many agents as its `max_concurrent_slots`.",
        "Wait, or raise `max_concurrent_slots`.",
    ),
    "share": (
        "Fair share used",
        "The project has its fair share of the pool.",
        "Wait for its turn, or give the project more `weight`.",
    ),
    "spacing": ("Spacing starts", "The pool starts agents one after another.", "Wait a moment."),
}

POOL_GATES: tuple[GateInfo, ...] = tuple(
    GateInfo(name, GateScope.POOL, *texts, is_polled=True)
    for name, texts in _POOL_GATE_TEXTS.items()
)
