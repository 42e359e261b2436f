"""Who waits for whom: the queue of root tasks, and dependencies between tasks and issues."""

from hostler.planner.dependencies import Graph, normalize, require_no_cycle, without_cycles
from hostler.planner.errors import BadDependency, DependencyCycle, DependencyError
from hostler.planner.queue import Queue, Status, Submitted, admits, positions, stale, submitted
from hostler.planner.readiness import Blocker, Standing, in_words
from hostler.planner.standing import (
    News,
    blockers_of,
    graph_of,
    hopeless_of,
    news_of,
    note_blockers,
    occupied,
    queue_of,
)

__all__ = [
    "BadDependency",
    "Blocker",
    "DependencyCycle",
    "DependencyError",
    "Graph",
    "News",
    "Queue",
    "Standing",
    "Status",
    "Submitted",
    "admits",
    "blockers_of",
    "graph_of",
    "hopeless_of",
    "in_words",
    "news_of",
    "normalize",
    "note_blockers",
    "occupied",
    "positions",
    "queue_of",
    "require_no_cycle",
    "stale",
    "submitted",
    "without_cycles",
]
