"""All state of a sandbox: what is true, what readers see of it, and the settings."""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from hostler.sandbox.git.process import Signature
from hostler.sandbox.git.repository import RepoStore
from hostler.sandbox.git.smart_http import PushListener
from hostler.sandbox.state.clock import VirtualClock
from hostler.sandbox.state.entities import Issue, Repo, TimelineEvent, User
from hostler.sandbox.state.tables import Entity, Tables


class InvalidInput(ValueError):
    """A control request or file is wrong; names the field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


@dataclass
class SandboxSettings:
    """GitHub's limits by default; 0 switches a limit off."""

    primary_limit: int = 5000
    anonymous_limit: int = 60
    installation_limit: int = 5000
    concurrent_limit: int = 100
    points_per_minute: int = 900
    creations_per_minute: int = 80
    creations_per_hour: int = 500
    missing_per_minute: int = 0
    primary_shape: int = 403
    secondary_shape: int = 403
    secondary_retry_after: int = 60
    visibility_delay: float = 0.0
    id_strategy: str = "sequence"
    max_items: int = 10_000
    git_idle_seconds: float = 60.0

    def change(self, values: dict[str, Any]) -> None:
        """Set several fields, or none if one is wrong."""
        checked = {name: self._checked(name, value) for name, value in values.items()}
        for name, value in checked.items():
            setattr(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields."""
        return asdict(self)

    def _checked(self, name: str, value: Any) -> Any:
        known = {field.name: field for field in fields(self)}
        if name not in known:
            raise InvalidInput(name, f"unknown setting; there are {', '.join(sorted(known))}")
        if name == "id_strategy":
            return _check_choice(name, value, ("sequence", "random"))
        if name.endswith("_shape"):
            return _check_choice(name, value, (403, 429))
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise InvalidInput(name, "must be a number from 0 up")
        if name not in ("visibility_delay", "git_idle_seconds") and not isinstance(value, int):
            raise InvalidInput(name, "must be a whole number")
        return value


def _check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed or isinstance(value, bool):
        raise InvalidInput(name, f"must be one of {', '.join(map(str, allowed))}")
    return value


_NOREPLY = re.compile(r"(?:[0-9]+\+)?([^@+]+)@users\.noreply\.github\.com")


def git_signature(world: World, login: str) -> Signature:
    """Return the name and address under which a user's commits are made here and now."""
    when = datetime.fromtimestamp(world.now(), UTC)
    user = world.user(login)
    if user is None:
        return Signature(login, f"{login}@users.noreply.github.com", when)
    email = user.email or f"{user.id}+{user.login}@users.noreply.github.com"
    return Signature(user.name or user.login, email, when)


def host_signature(world: World) -> Signature:
    """Return the name under which the host itself commits."""
    return Signature("GitHub", "noreply@github.com", datetime.fromtimestamp(world.now(), UTC))


def login_of_email(tables: Tables, email: str) -> str | None:
    """Return the user behind a commit's address, where there is one."""
    found = _NOREPLY.fullmatch(email)
    if found:
        user = tables.find(User, found[1].lower())
        return user.login if user else None
    return next((user.login for user in tables.all(User) if user.email == email), None)


E = TypeVar("E", bound=Entity)
# Called with event, entity, action, actor, and by name what else is to be said.
EventListener = Callable[..., None]

_hidden_for: ContextVar[float | None] = ContextVar("hidden_for", default=None)


class World:
    """All state. `truth` is what is; `seen` is what reads are answered from."""

    def __init__(
        self, clock: VirtualClock | None = None, settings: SandboxSettings | None = None
    ) -> None:
        self.clock = clock or VirtualClock()
        self.settings = settings or SandboxSettings()
        self.truth = Tables()
        self.seen = Tables()
        self.counters: dict[str, int] = {}
        self.listeners: list[EventListener] = []
        self.push_listeners: list[PushListener] = []
        # None: a sandbox without git, for tests of the API alone.
        self.repo_store: RepoStore | None = None
        # What URLs in webhooks begin with; the server says where it listens.
        self.root = "http://localhost"
        self._sequence = 0
        self._pending: list[tuple[float, int, Entity, bool]] = []
        self._published: dict[tuple[str, int], int] = {}
        self._random = random.Random(0)  # noqa: S311 - ids, not secrets

    def now(self) -> int:
        """Return the current second."""
        return int(self.clock.now())

    def new_id(self, kind: str) -> int:
        """Return a new id; each kind has its own counter, so ids of different kinds collide."""
        if self.settings.id_strategy == "random":
            return self._random_id(kind)
        return self.count(f"id:{kind}")

    def count(self, name: str) -> int:
        """Return the next number of a counter: 1, 2, 3, …"""
        self.counters[name] = self.counters.get(name, 0) + 1
        return self.counters[name]

    def next_number(self, repo: Repo) -> int:
        """Return the next issue or pull request number of a repository."""
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

    def publish(self, event: str, item: Entity, action: str, actor: str, **more: Any) -> None:
        """Publish an event for webhooks: `publish("issue_comment", comment, "created", "alice")`.

        `more` is added to what is said: entities as their JSON, other values as they are.
        """
        for listener in self.listeners:
            listener(event, item, action, actor, **more)

    def add_issue_event(self, issue: Issue, event: str, actor: str, **detail: str) -> TimelineEvent:
        """Add a line to an issue's events (closed, labeled, merged, …)."""
        commit = detail.pop("commit_id", None)
        return self.put(
            TimelineEvent(
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
        """Make all writes visible whose delay has passed."""
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
        """Return the user of this login, in truth."""
        return self.truth.find(User, login.lower())

    def repo(self, full_name: str) -> Repo | None:
        """Return the repository of this name, in truth."""
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


async def create_repo(world: World, owner: str, name: str, **values: Any) -> Repo:
    """Put a new repository into the world, with its git side."""
    now = world.now()
    readme = values.pop("auto_init", False)
    repo = Repo(
        id=world.new_id("repo"),
        owner=owner,
        name=name,
        created_at=now,
        updated_at=now,
        pushed_at=now,
        **values,
    )
    world.put(repo)
    if world.repo_store is not None:
        person = Signature(
            owner, f"{owner}@users.noreply.github.com", datetime.fromtimestamp(now, UTC)
        )
        await world.repo_store.create(
            repo.id,
            title=name,
            default_branch=repo.default_branch,
            person=person,
            readme=readme,
        )
    return repo
