"""The service: admission, polling, workers, sending, leaving."""

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
