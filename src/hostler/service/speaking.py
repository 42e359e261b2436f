"""Whether an agent has said anything on a bus: a message is progress, as a changed file is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from hostler.bus import Bus, Message, SenderKind, project_bus, task_bus
from hostler.bus.errors import BusError
from hostler.bus.ids import id_of
from hostler.model import parse_stamp
from hostler.store.runs import Run

# By so much the clocks of a bus and of the database may differ.
CLOCKS_DIFFER = timedelta(minutes=1)


def has_spoken(home: Path, run: Run) -> bool:
    """Whether the agent of a run posted on the bus of its task, or of its project."""
    after = id_of(parse_stamp(run.admitted_at) - CLOCKS_DIFFER)
    buses = (task_bus(home, run.project, run.task_id), project_bus(home, run.project))
    return any(_is_heard(bus, after, run.run) for bus in buses)


def _is_heard(bus: Bus, after: str, run: str) -> bool:
    def own(message: Message) -> bool:
        return message.sender.kind is SenderKind.AGENT and message.sender.run == run

    try:
        return len(bus.since(after, own)) > 0
    except (BusError, OSError):
        return False
