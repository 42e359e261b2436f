"""Everything that the edges of one repository's work need, bound once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostler.checkouts.mirror import Mirror
from hostler.checkouts.place import Checkout, Identity, Place
from hostler.checkouts.remote import Remote
from hostler.config.settings import Repo, Tasks
from hostler.intake import Watch
from hostler.store import Store
from hostler.store.tasks import Task

# Longest run of one setup or test command.
COMMAND_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Desk:
    """One repository: its settings, its mirror, its remote, and where its checkouts are.

    `env` is the agent's environment: commands of the repository never see ours. `permit` is asked
    before anything leaves the house, and raises `FenceLost` if the work is no longer ours.
    """

    store: Store
    watch: Watch
    settings: Repo
    mirror: Mirror
    remote: Remote
    checkouts: Path
    identity: Identity
    limits: Tasks = field(default_factory=Tasks)
    env: Mapping[str, str] = field(default_factory=dict)
    command_seconds: float = COMMAND_SECONDS
    permit: Callable[[], None] = lambda: None

    def checkout(self, task: Task) -> Checkout:
        """Where a task's work is."""
        return Checkout(Place(self.checkouts, task.project, task.id), self.mirror, task.branch)
