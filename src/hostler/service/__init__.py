"""The service: admission, polling, workers, sending, leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.lazily import parts_of

if TYPE_CHECKING:
    from hostler.service.desks import Desks
    from hostler.service.house import House
    from hostler.service.journal import Journal
    from hostler.service.limiter import GlobalWorkLimiter
    from hostler.service.orchestrator import RepoOrchestrator
    from hostler.service.parts import Duty
    from hostler.service.runner import ServiceRunner

__all__ = [
    "Desks",
    "Duty",
    "GlobalWorkLimiter",
    "House",
    "Journal",
    "RepoOrchestrator",
    "ServiceRunner",
]

__getattr__ = parts_of(
    __name__,
    {
        "Desks": "desks",
        "Duty": "parts",
        "GlobalWorkLimiter": "limiter",
        "House": "house",
        "Journal": "journal",
        "RepoOrchestrator": "orchestrator",
        "ServiceRunner": "runner",
    },
)
