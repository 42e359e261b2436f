"""Agents at work: since when, when they last wrote anything, and what they have used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hostler.model import parse_stamp, stamp
from hostler.service.pages import about
from hostler.service.portrait import seconds_of
from hostler.store import Transaction
from hostler.store.runs import Run, live_runs
from hostler.store.tasks import Task, find_task
from hostler.store.transaction import age, not_after

# What an agent writes to while it works.
STREAMS = ("stdout", "stderr")
# When a run last wrote anything; None: nobody knows.
Activity = Callable[[Run], datetime | None]


@dataclass(frozen=True, slots=True)
class AtWork:
    """An agent at work, and its task where that is still known. `active`: its last sign of life."""

    run: Run
    task: Task | None
    seconds: float
    active: datetime | None
    idle_seconds: float | None

    def as_json(self, web_url: str) -> dict[str, Any]:
        """For programs."""
        run = self.run
        unknown = {"task": run.task_id, "project": run.project}
        return {
            **(about(self.task, web_url) if self.task else unknown),
            "run": run.run,
            "agent": run.agent,
            "pool": run.pool,
            "kind": run.kind,
            "attempt": run.attempt,
            "state": run.state.value,
            "seconds": self.seconds,
            "active_at": stamp(self.active) if self.active else None,
            "idle_seconds": self.idle_seconds,
            "lent": run.lent_at is not None,
            "stopping": run.stop_why,
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "cached_tokens": run.cached_tokens,
            "usd": run.usd,
        }


def last_written(home: Path) -> Activity:
    """The newest change of a run's streams, by the files themselves."""

    def look(run: Run) -> datetime | None:
        found = []
        for name in STREAMS:
            with suppress(OSError):
                found.append((home / run.folder / name).lstat().st_mtime)
        return datetime.fromtimestamp(max(found), UTC) if found else None

    return look


def agents_at_work(tx: Transaction, activity: Activity) -> tuple[AtWork, ...]:
    """All agents that hold a place, longest first."""
    return tuple(_seen(tx, live_runs(tx), activity))


def _seen(tx: Transaction, runs: Iterable[Run], activity: Activity) -> Iterable[AtWork]:
    now = tx.now()
    for run in runs:
        active = activity(run) or (parse_stamp(run.running_at) if run.running_at else None)
        active = not_after(active, now) if active else None
        idle = age(active, now).total_seconds() if active else None
        yield AtWork(run, find_task(tx, run.task_id), seconds_of(run, now), active, idle)
