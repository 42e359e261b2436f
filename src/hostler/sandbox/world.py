"""The truth, and what readers see of it: every write becomes visible after a delay."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from hostler.sandbox.entities import Event, Issue, Repo, User
from hostler.sandbox.git.http import PushListener
from hostler.sandbox.git.vault import Vault
from hostler.sandbox.moments import VirtualClock
from hostler.sandbox.settings import Settings
from hostler.sandbox.tables import Entity, Tables

E = TypeVar("E", bound=Entity)
# Called with event, entity, action, actor, and by name what else is to be said.
Listener = Callable[..., None]

_hidden_for: ContextVar[float | None] = ContextVar("hidden_for", default=None)


class World:
    """All state. `truth` is what is; `seen` is what reads are answered from."""

    def __init__(self, clock: VirtualClock | None = None, settings: Settings | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.settings = settings or Settings()
        self.truth = Tables()
        self.seen = Tables()
        self.counters: dict[str, int] = {}
        self.listeners: list[Listener] = []
        self.push_listeners: list[PushListener] = []
        # None: a sandbox without git, for tests of the API alone.
        self.vault: Vault | None = None
        # What URLs in webhooks begin with; the server says where it listens.
        self.root = "http://localhost"
        self._sequence = 0
        self._pending: list[tuple[float, int, Entity, bool]] = []
        self._published: dict[tuple[str, int], int] = {}
        self._random = random.Random(0)  # noqa: S311 - ids, not secrets

    def now(self) -> int:
        """The second it is."""
        return int(self.clock.now())

    def new_id(self, kind: str) -> int:
        """A fresh id; each kind counts for itself, so ids of different kinds collide."""
        if self.settings.id_strategy == "random":
            return self._random_id(kind)
        return self.count(f"id:{kind}")

    def count(self, name: str) -> int:
        """The next number of a counter: 1, 2, 3, …"""
        self.counters[name] = self.counters.get(name, 0) + 1
        return self.counters[name]

    def next_number(self, repo: Repo) -> int:
        """The next issue or pull request number of a repository."""
        return self.count(f"number:{repo.id}")

    def put(self, item: E) -> E:
        """Write a new entity or version; readers see it when its delay has passed."""
        self.truth.put(item)
        self._publish(item, removed=False)
        return item

    def remove(self, item: Entity) -> None:
        """Delete an entity."""
        self.truth.remove(item)
        self._publish(item, removed=True)

    def tell(self, event: str, item: Entity, action: str, actor: str, **more: Any) -> None:
        """Say what happened, for webhooks: `tell("issue_comment", comment, "created", "alice")`.

        `more` is added to what is said: entities as their JSON, other values as they are.
        """
        for listener in self.listeners:
            listener(event, item, action, actor, **more)

    def note(self, issue: Issue, event: str, actor: str, **detail: str) -> Event:
        """Add a line to an issue's events (closed, labeled, merged, …)."""
        commit = detail.pop("commit_id", None)
        return self.put(
            Event(
                id=self.new_id("event"),
                repo_id=issue.repo_id,
                issue_id=issue.id,
                actor=actor,
                event=event,
                created_at=self.now(),
                detail=tuple(sorted(detail.items())),
                commit_id=commit,
            )
        )

    @contextmanager
    def hiding(self, seconds: float | None) -> Iterator[None]:
        """Writes inside become visible after these seconds instead of the usual delay."""
        token = _hidden_for.set(seconds)
        try:
            yield
        finally:
            _hidden_for.reset(token)

    def settle(self) -> None:
        """Show readers everything whose time has come."""
        pending = self._pending
        if not pending:
            return
        now = self.clock.now()
        while pending and pending[0][0] <= now:
            _, sequence, item, removed = heapq.heappop(pending)
            self._show(sequence, item, removed)

    def show_all(self) -> None:
        """Show readers everything at once."""
        for _, sequence, item, removed in sorted(self._pending, key=lambda entry: entry[1]):
            self._show(sequence, item, removed)
        self._pending.clear()

    def remove_repo(self, repo: Repo) -> None:
        """Delete a repository with all that is in it."""
        for item in self.truth.everything():
            if getattr(item, "repo_id", None) == repo.id:
                self.remove(item)
        self.remove(repo)

    def reset(self) -> None:
        """Empty the world, keeping its clock, settings and listeners."""
        self.truth, self.seen = Tables(), Tables()
        self.counters.clear()
        self._pending.clear()
        self._published.clear()

    def user(self, login: str) -> User | None:
        """The user of this login, in truth."""
        return self.truth.find(User, login.lower())

    def repo(self, full_name: str) -> Repo | None:
        """The repository of this name, in truth."""
        return self.truth.find(Repo, full_name.lower())

    def _publish(self, item: Entity, *, removed: bool) -> None:
        self._sequence += 1
        hidden = _hidden_for.get()
        delay = self.settings.visibility_delay if hidden is None else hidden
        if delay <= 0:
            self._show(self._sequence, item, removed)
        else:
            due = self.clock.now() + delay
            heapq.heappush(self._pending, (due, self._sequence, item, removed))

    def _show(self, sequence: int, item: Entity, removed: bool) -> None:
        # A late older version must not undo a newer one that was seen before it.
        key = (item.kind, item.id)
        if self._published.get(key, 0) > sequence:
            return
        self._published[key] = sequence
        if removed:
            self.seen.remove(item)
        else:
            self.seen.put(item)

    def _random_id(self, kind: str) -> int:
        while True:
            found = self._random.randrange(1, 2**40)
            if not self.truth.has(kind, found):
                return found
