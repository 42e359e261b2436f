"""Usage of each account, and whether a request may be sent now, waits or is refused."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from hostler.clock import Clock, Wakeup
from hostler.errors import RateLimited
from hostler.forge.github.rate_limit.limits import (
    HOUR,
    HOUR_MEMORY,
    MINUTE,
    MINUTE_MEMORY,
    PrimaryLimit,
    RateLimitBudget,
    RateLimitRefusal,
    ReportedLimit,
    RequestCaps,
    RequestCounts,
    RequestKind,
    SlidingWindow,
    active_stretch,
    apply_reported_limit,
    charge_request,
    current_limit,
    hour_pressure,
    idle_stretch,
    minute_pressure,
    parse_reported_limit,
)
from hostler.model import RepoName
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import (
    GITHUB_BUDGET_LIMIT,
    GITHUB_BUDGET_REMAINING,
    GITHUB_POINTS,
    GITHUB_REFUSALS,
    GITHUB_STRETCH,
)

PRIMARY, SECONDARY = "primary", "secondary"


@dataclass(frozen=True, slots=True)
class RateLimitHold:
    """A request may not be sent now. `seconds` to wait; None: until a running request ends."""

    limit: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """GitHub refused a request, and until when it does."""

    limit: str
    until: float


class RateLimitAccount:
    """The state of one account."""

    def __init__(self, caps: RequestCaps) -> None:
        self._caps = caps
        self._point_caps = {kind: caps.points(kind) for kind in RequestKind}
        self._concurrency_caps = {kind: caps.concurrency(kind) for kind in RequestKind}
        self._point_share = caps.share(caps.points_per_minute)
        self._primary: PrimaryLimit | None = None
        self._answered = False
        self._in_flight = 0
        self._points = SlidingWindow(MINUTE)
        self._written = SlidingWindow(MINUTE)
        self._created = {MINUTE: SlidingWindow(MINUTE), HOUR: SlidingWindow(HOUR)}
        # What polls would have cost without stretching.
        self._paid = RequestCounts(HOUR_MEMORY)
        self._asked = RequestCounts(MINUTE_MEMORY)
        # When refused polls come again.
        self._refused_polls: deque[float] = deque()
        self._refused: RequestRefused | None = None
        self._refusals = 0
        self._episodes = 0

    def find_hold(self, kind: RequestKind, now: float) -> RateLimitHold | None:
        """Return what keeps a request from being sent now, or None."""
        refused = self.current_refusal(now)
        if refused is not None:
            return RateLimitHold(refused.limit, refused.until - now)
        if self._in_flight and not self._answered:
            return RateLimitHold(PRIMARY, None)
        primary = self.primary(now)
        if primary is not None and self._left(kind, primary) < 1:
            return RateLimitHold(
                PRIMARY, None if self._may_become_free(kind, primary) else primary.ends - now
            )
        if self._in_flight >= self._concurrency_caps[kind]:
            return RateLimitHold(SECONDARY, None)
        if self._wait(kind, now) <= 0:
            return None
        return RateLimitHold(SECONDARY, self._wait(kind, now, self._queued_points(kind, now)))

    def start_request(self, kind: RequestKind, now: float) -> int:
        """Start a request. Return how often GitHub had refused us until then."""
        self._record_demand(kind, now)
        self._in_flight += 1
        for window, amount in self._windows(kind):
            window.begin(amount)
        return self._episodes

    def record_wait(self, kind: RequestKind, now: float) -> None:
        """Record that a request had to wait: demand exceeds what was spent."""
        self._record_demand(kind, now)

    def record_refused_poll(self, kind: RequestKind, hold: RateLimitHold, now: float) -> None:
        """Record that a request was refused and comes again later."""
        if kind is RequestKind.READ and hold.limit == SECONDARY and hold.seconds:
            self._refused_polls.append(now + hold.seconds)

    def end_request(self, kind: RequestKind, now: float, *, sent: bool) -> None:
        """End a request; not `was_sent` if it certainly never reached GitHub."""
        self._in_flight -= 1
        for window, amount in self._windows(kind):
            window.end(amount, now, counted=sent)

    def record_lost_answer(self, now: float) -> None:
        """Record that a request may have reached GitHub but got no answer."""
        primary = self.primary(now)
        self._primary = charge_request(primary) if primary else None

    def record_answer(
        self, kind: RequestKind, status: int, reported: ReportedLimit | None, now: float
    ) -> None:
        """Record an answer."""
        if kind is RequestKind.READ and status != 304:
            self._paid.add(self.stretch(now), now)
        if status < 300 or status == 304:
            self._refusals = 0
        if status == 401:
            return  # the headers are about unauthenticated requests
        # An error of a gateway says nothing about the host behind it.
        self._answered = self._answered or reported is not None or status < 400
        primary = self.primary(now)
        if reported is not None:
            self._primary = apply_reported_limit(primary, reported, now)
        elif primary is not None:
            self._primary = charge_request(primary)

    def count_refusals(self, episodes: int) -> int:
        """Return how many refusals in a row came before that of a request.

        `episodes` is what `start_request` returned.
        """
        together = episodes < self._episodes
        return self._refusals - 1 if together and self._refusals else self._refusals

    def record_refusal(self, limit: str, seconds: float, episodes: int, now: float) -> None:
        """Record a refusal by GitHub. Requests that ran at the same time count once."""
        self._refusals = self.count_refusals(episodes) + 1
        self._episodes = max(self._episodes, episodes + 1)
        current = self.current_refusal(now)
        until = max(now + seconds, current.until if current else now)
        self._refused = RequestRefused(limit, until)

    def current_refusal(self, now: float) -> RequestRefused | None:
        """Return GitHub's refusal while it lasts."""
        held = self._refused is not None and now < self._refused.until
        return self._refused if held else None

    def primary(self, now: float) -> PrimaryLimit | None:
        """Return what is known of the hourly limit; None if unknown or unlimited."""
        return None if self._primary is None else current_limit(self._primary, now)

    def points(self, now: float) -> int:
        """Return the points of the last minute."""
        return self._points.total(now)

    def stretch(self, now: float, *, active: bool = False) -> float:
        """Return the factor by which pauses between polls should grow."""
        idle = idle_stretch(max(self._hour_pressure(now), self._minute_pressure(now)))
        return active_stretch(idle) if active else idle

    def _record_demand(self, kind: RequestKind, now: float) -> None:
        if kind is RequestKind.READ:
            self._asked.add(kind.points, now, slower=self.stretch(now))

    def _queued_points(self, kind: RequestKind, now: float) -> int:
        """Return the points of refused requests that have not come again yet."""
        while self._refused_polls and self._refused_polls[0] <= now:
            self._refused_polls.popleft()
        return len(self._refused_polls) * kind.points if kind is RequestKind.READ else 0

    def _hour_pressure(self, now: float) -> float:
        primary = self.primary(now)
        if primary is None:
            return 0.0
        left = primary.remaining - self._reserved(RequestKind.READ, primary)
        return hour_pressure(self._paid.rate(now), left, primary.ends - now)

    def _minute_pressure(self, now: float) -> float:
        return minute_pressure(self._asked.rate(now), self._point_share, self._written.total(now))

    def _left(self, kind: RequestKind, primary: PrimaryLimit) -> int:
        return primary.remaining - self._in_flight - self._reserved(kind, primary)

    def _may_become_free(self, kind: RequestKind, primary: PrimaryLimit) -> bool:
        """Return whether there is room if running requests turn out to be free."""
        return self._in_flight > 0 and primary.remaining > self._reserved(kind, primary)

    def _reserved(self, kind: RequestKind, primary: PrimaryLimit) -> int:
        """Return what must remain of the hourly limit."""
        return primary.limit - self._caps.hourly(kind, primary.limit)

    def _wait(self, kind: RequestKind, now: float, in_line: int = 0) -> float:
        """Return the seconds until the windows have room for it, after those that wait."""
        caps = self._caps
        waits = [self._points.wait(kind.points + in_line, self._point_caps[kind], now)]
        if kind is RequestKind.CREATION:
            for seconds, limit in (
                (MINUTE, caps.creations_per_minute),
                (HOUR, caps.creations_per_hour),
            ):
                waits.append(self._created[seconds].wait(1, caps.share(limit), now))
        return max(waits)

    def _windows(self, kind: RequestKind) -> list[tuple[SlidingWindow, int]]:
        """Return the windows that a request of a kind counts in, and its weight."""
        found = [(self._points, kind.points)]
        if kind in (RequestKind.WRITE, RequestKind.CREATION):
            found.append((self._written, kind.points))
        if kind is RequestKind.CREATION:
            found += [(window, 1) for window in self._created.values()]
        return found


MAX_WAIT = 10.0
BUSY_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """What is known of an account, by our wall clock; None if unknown."""

    account: str
    limit: int | None
    remaining: int | None
    resets_at: datetime | None
    points: int
    idle_stretch: float
    active_stretch: float
    refused_until: datetime | None


class RequestTurn:
    """One running request. It counts as lost unless its end is recorded."""

    def __init__(
        self, accounts: RateLimitAccounts, name: str, kind: RequestKind, episodes: int
    ) -> None:
        self._accounts = accounts
        self._name = name
        self._kind = kind
        self._episodes = episodes
        self.was_sent = True
        self.answered = False

    def mark_not_sent(self) -> None:
        """Record that nothing was sent."""
        self.was_sent = False

    def record_answer(self, status: int, budget: RateLimitBudget) -> None:
        """Record GitHub's answer."""
        self.answered = True
        self._accounts.answered(self._name, self._kind, status, budget)

    def count_refusals(self) -> int:
        """Return how many refusals in a row came before this request's."""
        return self._accounts.count_refusals(self._name, self._episodes)

    def record_refusal(self, refusal: RateLimitRefusal) -> None:
        """Record that GitHub told us to wait."""
        self._accounts.record_refusal(self._name, refusal, self._episodes)


class RateLimitAccounts:
    """The accounts by name. Requests without an account (an empty name) are not counted."""

    def __init__(
        self, clock: Clock, caps: RequestCaps | None = None, max_wait: float = 0.0
    ) -> None:
        """`max_wait`: how long a request waits for a window."""
        self.caps = caps or RequestCaps()
        self._clock = clock
        self._max_wait = max_wait
        self._lock = threading.Lock()
        self._known: dict[str, RateLimitAccount] = {}
        self._payers: dict[RepoName, str] = {}
        self._waiting: set[Wakeup] = set()
        self._closed = False

    @contextmanager
    def turn(self, name: str, kind: RequestKind, description: str) -> Iterator[RequestTurn]:
        """Wait until a request may be sent, and yield it. Raises `RateLimited`."""
        if not name:
            yield RequestTurn(self, name, kind, 0)
            return
        turn = RequestTurn(self, name, kind, self._wait_for_turn(name, kind, description))
        try:
            yield turn
        finally:
            self._end_turn(name, kind, turn)

    def stretch(self, active: bool, repo: RepoName | None = None) -> float:
        """Return the factor by which the pause between polls should grow: 1.0 is none.

        By the account that pays for the repository; by the scarcest while that is not known.
        """
        with self._lock:
            now, payer = self._clock.monotonic(), self._payers.get(repo) if repo else None
            accounts = self._known.values() if payer is None else [self._account(payer)]
            return max((one.stretch(now, active=active) for one in accounts), default=1.0)

    def list_statuses(self) -> list[AccountStatus]:
        """Return what is known of each account."""
        with self._lock:
            return [self._status(name) for name in sorted(self._known)]

    def set_payer(self, name: str, repo: RepoName) -> None:
        """Set which account pays for a repository."""
        with self._lock:
            self._payers[repo] = name

    def refused_until(self) -> datetime | None:
        """Return until when GitHub refuses all accounts; None if one of them may be used."""
        with self._lock:
            statuses = [self._status(name) for name in self._known]
        refusal_ends = [one.refused_until for one in statuses if one.refused_until]
        return min(refusal_ends) if refusal_ends and len(refusal_ends) == len(statuses) else None

    def close(self) -> None:
        """Stop all waiting."""
        with self._lock:
            self._closed = True
            self._wake_all()

    def answered(self, name: str, kind: RequestKind, status: int, budget: RateLimitBudget) -> None:
        """Record an answer; see `RequestTurn`."""
        if not name:
            return
        reported = parse_reported_limit(budget, self._clock.now())
        with self._lock:
            self._account(name).record_answer(kind, status, reported, self._clock.monotonic())

    def count_refusals(self, name: str, episodes: int) -> int:
        """Return how many refusals in a row; see `RequestTurn`."""
        with self._lock:
            return self._account(name).count_refusals(episodes) if name else 0

    def record_refusal(self, name: str, refusal: RateLimitRefusal, episodes: int) -> None:
        """Record a refusal; see `RequestTurn`."""
        if not name:
            return
        metrics.count(GITHUB_REFUSALS, account=name, limit=refusal.limit, by="github")
        seconds = (refusal.until - self._clock.now()).total_seconds()
        with self._lock:
            now = self._clock.monotonic()
            self._account(name).record_refusal(refusal.limit, max(seconds, 0.0), episodes, now)

    def _wait_for_turn(self, name: str, kind: RequestKind, description: str) -> int:
        """Wait until a request may be sent. Raises `RateLimited` if that takes too long."""
        wake = self._clock.wakeup()
        started_at = self._clock.monotonic()
        try:
            while True:
                wake.clear()
                found = self._try(name, kind, wake)
                if not isinstance(found, RateLimitHold):
                    return found
                wake.wait(self._wait_seconds(found, started_at, name, kind, description))
        finally:
            with self._lock:
                self._waiting.discard(wake)

    def _try(self, name: str, kind: RequestKind, wake: Wakeup) -> int | RateLimitHold:
        with self._lock:
            now, account = self._clock.monotonic(), self._account(name)
            hold = account.find_hold(kind, now)
            if hold is None:
                return account.start_request(kind, now)
            if wake not in self._waiting:
                account.record_wait(kind, now)
            # Under the same lock: every request that ends from now on wakes us.
            self._waiting.add(wake)
            return hold

    def _wait_seconds(
        self, hold: RateLimitHold, started_at: float, name: str, kind: RequestKind, description: str
    ) -> float:
        """Return how long to wait. Raises if that is too long."""
        waited = self._clock.monotonic() - started_at
        # Running requests end by themselves, so they are waited for in any case.
        max_wait = MAX_WAIT if hold.seconds is None else self._max_wait
        needed = 0.0 if hold.seconds is None else hold.seconds
        if self._closed or waited + needed > max_wait or waited >= MAX_WAIT:
            raise self._refusal(hold, name, kind, description)
        return max_wait - waited if hold.seconds is None else needed

    def _refusal(
        self, hold: RateLimitHold, name: str, kind: RequestKind, description: str
    ) -> RateLimited:
        metrics.count(GITHUB_REFUSALS, account=name, limit=hold.limit, by="us")
        with self._lock:
            self._account(name).record_refused_poll(kind, hold, self._clock.monotonic())
        seconds = BUSY_RETRY_SECONDS if hold.seconds is None else hold.seconds
        until = self._clock.now() + timedelta(seconds=seconds)
        return RateLimited(description, 0, until, hold.limit)

    def _end_turn(self, name: str, kind: RequestKind, turn: RequestTurn) -> None:
        with self._lock:
            now, account = self._clock.monotonic(), self._account(name)
            account.end_request(kind, now, sent=turn.was_sent)
            if turn.was_sent and not turn.answered:
                account.record_lost_answer(now)
            self._wake_all()
            status = self._status(name)
        _publish_metrics(status)

    def _wake_all(self) -> None:
        for wake in self._waiting:
            wake.set()

    def _account(self, name: str) -> RateLimitAccount:
        return self._known.setdefault(name, RateLimitAccount(self.caps))

    def _status(self, name: str) -> AccountStatus:
        now, wall = self._clock.monotonic(), self._clock.now()
        account = self._account(name)
        primary, refused = account.primary(now), account.current_refusal(now)
        return AccountStatus(
            name,
            primary.limit if primary else None,
            primary.remaining if primary else None,
            wall + timedelta(seconds=primary.ends - now) if primary else None,
            account.points(now),
            account.stretch(now),
            account.stretch(now, active=True),
            wall + timedelta(seconds=refused.until - now) if refused else None,
        )


def _publish_metrics(status: AccountStatus) -> None:
    account = status.account
    if status.limit is not None and status.remaining is not None:
        metrics.set(GITHUB_BUDGET_LIMIT, status.limit, account=account)
        metrics.set(GITHUB_BUDGET_REMAINING, status.remaining, account=account)
    metrics.set(GITHUB_POINTS, status.points, account=account)
    metrics.set(GITHUB_STRETCH, status.idle_stretch, account=account, repositories="idle")
    metrics.set(GITHUB_STRETCH, status.active_stretch, account=account, repositories="active")
