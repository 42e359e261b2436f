"""What follows from a run, as data: the task's next state, and what is written with it."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.forge.deeds import Deed
from hostler.store.outbox import Lane
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Task


@dataclass(frozen=True, slots=True)
class Write:
    """Something to be done on GitHub, once per token."""

    deed: Deed
    token: str
    lane: Lane
    source: str


@dataclass(frozen=True, slots=True)
class Answered:
    """These words have had their turn."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PullStands:
    """The task's pull request has this status and, if known, this head."""

    status: PullStatus
    head_sha: str = ""
    without_person: bool = False


Effect = Write | Answered | PullStands


@dataclass(frozen=True, slots=True)
class Step:
    """A task as it shall be, and what goes with it in the same transaction."""

    task: Task
    effects: tuple[Effect, ...] = ()
