"""Rules: which work stands still without anybody seeing to it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hostler.model import parse_stamp
from hostler.planner import stale
from hostler.store.tasks import Task
from hostler.store.transaction import age

# A service that works finds such tasks by itself, within seconds.
UNATTENDED = timedelta(minutes=5)
# Quotas and dependencies hold work for hours; after a day somebody should know.
LONG = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Tasks that one gate has held for long, the longest first."""

    gate: str
    tasks: list[Task]
    hours: int

    @classmethod
    def longest(cls, waiting: Iterable[Task], now: datetime) -> list[Waiting]:
        """By gate, those that wait for longer than a day."""
        held: dict[str, list[tuple[timedelta, Task]]] = {}
        for task in waiting:
            since = age(parse_stamp(task.gate_since), now) if task.gate_since else timedelta(0)
            if task.gate and since > LONG:
                held.setdefault(task.gate, []).append((since, task))
        return [cls._of(gate, held[gate]) for gate in sorted(held)]

    @classmethod
    def _of(cls, gate: str, found: list[tuple[timedelta, Task]]) -> Waiting:
        ordered = sorted(found, key=lambda one: (-one[0], one[1].id))
        hours = int(ordered[0][0] / timedelta(hours=1))
        return cls(gate, [task for _, task in ordered], hours)


def without_anybody(
    running: Iterable[Task], attended: Collection[str], now: datetime
) -> list[Task]:
    """Tasks that are said to run, and of which no run is open."""
    return stale(running, attended, now, UNATTENDED)
