"""The service: admission, polling, workers, sending, leaving."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.service.desks import Desks, House
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

_HOMES = {
    "Desks": "desks",
    "Duty": "parts",
    "GlobalWorkLimiter": "limiter",
    "House": "desks",
    "Journal": "journal",
    "RepoOrchestrator": "orchestrator",
    "ServiceRunner": "runner",
}


def __getattr__(name: str) -> object:
    """Load a part when it is asked for: who only reads must not wait for a whole service."""
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f"hostler.service.{_HOMES[name]}"), name)
