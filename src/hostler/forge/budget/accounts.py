"""All accounts of a hub, for many threads: who may ask now, who waits, who is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from hostler.clock import Clock, Wakeup
from hostler.errors import RateLimited
from hostler.forge.budget.account import Account, Hold
from hostler.forge.budget.caps import Caps, Kind
from hostler.forge.budget.primary import told
from hostler.forge.limits import Budget, Refusal
from hostler.model import RepoName
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import (
    GITHUB_BUDGET_LIMIT,
    GITHUB_BUDGET_REMAINING,
    GITHUB_POINTS,
    GITHUB_REFUSALS,
    GITHUB_STRETCH,
)

PATIENCE = 10.0
BUSY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of an account, by our wall clock; None where it is not known."""

    account: str
    limit: int | None
    remaining: int | None
    resets_at: datetime | None
    points: int
    idle_stretch: float
    active_stretch: float
    refused_until: datetime | None


class Turn:
    """One request under way. It counts as lost unless somebody says how it ended."""

    def __init__(self, accounts: Accounts, name: str, kind: Kind, episodes: int) -> None:
        self._accounts = accounts
        self._name = name
        self._kind = kind
        self._episodes = episodes
        self.sent = True
        self.answered = False

    def never_left(self) -> None:
        """Nothing has reached GitHub."""
        self.sent = False

    def answer(self, status: int, budget: Budget) -> None:
        """GitHub has answered."""
        self.answered = True
        self._accounts.answered(self._name, self._kind, status, budget)

    def refusals(self) -> int:
        """How many refusals in a row came before this request's."""
        return self._accounts.refusals(self._name, self._episodes)

    def refuse(self, refusal: Refusal) -> None:
        """GitHub's answer was that we have to wait."""
        self._accounts.refuse(self._name, refusal, self._episodes)


class Accounts:
    """The accounts by name. Requests of nobody (an empty name) are not counted."""

    def __init__(self, clock: Clock, caps: Caps | None = None, patience: float = 0.0) -> None:
        """`patience`: how long a request waits for what only time can bring."""
        self.caps = caps or Caps()
        self._clock = clock
        self._patience = patience
        self._lock = threading.Lock()
        self._known: dict[str, Account] = {}
        self._payers: dict[RepoName, str] = {}
        self._waiting: set[Wakeup] = set()
        self._closed = False

    @contextmanager
    def turn(self, name: str, kind: Kind, words: str) -> Iterator[Turn]:
        """A request under way, as soon as it may leave. Raises `RateLimited`."""
        if not name:
            yield Turn(self, name, kind, 0)
            return
        turn = Turn(self, name, kind, self._enter(name, kind, words))
        try:
            yield turn
        finally:
            self._leave(name, kind, turn)

    def stretch(self, active: bool, repo: RepoName | None = None) -> float:
        """By how much the pause between polls should grow: 1.0 while there is plenty.

        By the account that pays for the repository; by the scarcest while that is not known.
        """
        with self._lock:
            now, payer = self._clock.monotonic(), self._payers.get(repo) if repo else None
            accounts = self._known.values() if payer is None else [self._account(payer)]
            return max((one.stretch(now, active=active) for one in accounts), default=1.0)

    def standings(self) -> list[Standing]:
        """What is known of each account."""
        with self._lock:
            return [self._standing(name) for name in sorted(self._known)]

    def pays(self, name: str, repo: RepoName) -> None:
        """Which account pays for a repository."""
        with self._lock:
            self._payers[repo] = name

    def refused_until(self) -> datetime | None:
        """Until when GitHub refuses all of us; None if anybody may ask."""
        with self._lock:
            standings = [self._standing(name) for name in self._known]
        untils = [one.refused_until for one in standings if one.refused_until]
        return min(untils) if untils and len(untils) == len(standings) else None

    def close(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._closed = True
            self._wake()

    def answered(self, name: str, kind: Kind, status: int, budget: Budget) -> None:
        """An answer came; see `Turn`."""
        if not name:
            return
        said = told(budget, self._clock.now())
        with self._lock:
            self._account(name).answer(kind, status, said, self._clock.monotonic())

    def refusals(self, name: str, episodes: int) -> int:
        """How many refusals in a row; see `Turn`."""
        with self._lock:
            return self._account(name).refusals(episodes) if name else 0

    def refuse(self, name: str, refusal: Refusal, episodes: int) -> None:
        """GitHub refuses an account; see `Turn`."""
        if not name:
            return
        metrics.count(GITHUB_REFUSALS, account=name, limit=refusal.limit, by="github")
        seconds = (refusal.until - self._clock.now()).total_seconds()
        with self._lock:
            now = self._clock.monotonic()
            self._account(name).refuse(refusal.limit, max(seconds, 0.0), episodes, now)

    def _enter(self, name: str, kind: Kind, words: str) -> int:
        """Wait until a request may leave. Raises `RateLimited` where that takes too long."""
        wake = self._clock.wakeup()
        began = self._clock.monotonic()
        try:
            while True:
                wake.clear()
                found = self._try(name, kind, wake)
                if not isinstance(found, Hold):
                    return found
                wake.wait(self._bearable(found, began, name, kind, words))
        finally:
            with self._lock:
                self._waiting.discard(wake)

    def _try(self, name: str, kind: Kind, wake: Wakeup) -> int | Hold:
        with self._lock:
            now, account = self._clock.monotonic(), self._account(name)
            hold = account.hold(kind, now)
            if hold is None:
                return account.enter(kind, now)
            if wake not in self._waiting:
                account.held(kind, now)
            # In the same breath: whoever leaves from now on wakes us.
            self._waiting.add(wake)
            return hold

    def _bearable(self, hold: Hold, began: float, name: str, kind: Kind, words: str) -> float:
        """How long to wait; raises where that would be too long."""
        waited = self._clock.monotonic() - began
        # Requests under way end by themselves; only they are waited for without patience of ours.
        patience = PATIENCE if hold.seconds is None else self._patience
        needed = 0.0 if hold.seconds is None else hold.seconds
        if self._closed or waited + needed > patience or waited >= PATIENCE:
            raise self._refusal(hold, name, kind, words)
        return patience - waited if hold.seconds is None else needed

    def _refusal(self, hold: Hold, name: str, kind: Kind, words: str) -> RateLimited:
        metrics.count(GITHUB_REFUSALS, account=name, limit=hold.limit, by="us")
        with self._lock:
            self._account(name).turn_away(kind, hold, self._clock.monotonic())
        seconds = BUSY_SECONDS if hold.seconds is None else hold.seconds
        until = self._clock.now() + timedelta(seconds=seconds)
        return RateLimited(words, 0, until, hold.limit)

    def _leave(self, name: str, kind: Kind, turn: Turn) -> None:
        with self._lock:
            now, account = self._clock.monotonic(), self._account(name)
            account.leave(kind, now, sent=turn.sent)
            if turn.sent and not turn.answered:
                account.lost(now)
            self._wake()
            standing = self._standing(name)
        _publish(standing)

    def _wake(self) -> None:
        for wake in self._waiting:
            wake.set()

    def _account(self, name: str) -> Account:
        return self._known.setdefault(name, Account(self.caps))

    def _standing(self, name: str) -> Standing:
        now, wall = self._clock.monotonic(), self._clock.now()
        account = self._account(name)
        primary, refused = account.primary(now), account.refused(now)
        return Standing(
            name,
            primary.limit if primary else None,
            primary.remaining if primary else None,
            wall + timedelta(seconds=primary.ends - now) if primary else None,
            account.points(now),
            account.stretch(now),
            account.stretch(now, active=True),
            wall + timedelta(seconds=refused.until - now) if refused else None,
        )


def _publish(standing: Standing) -> None:
    account = standing.account
    if standing.limit is not None and standing.remaining is not None:
        metrics.set(GITHUB_BUDGET_LIMIT, standing.limit, account=account)
        metrics.set(GITHUB_BUDGET_REMAINING, standing.remaining, account=account)
    metrics.set(GITHUB_POINTS, standing.points, account=account)
    metrics.set(GITHUB_STRETCH, standing.idle_stretch, account=account, repositories="idle")
    metrics.set(GITHUB_STRETCH, standing.active_stretch, account=account, repositories="active")
