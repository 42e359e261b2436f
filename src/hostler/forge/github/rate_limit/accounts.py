"""Usage of each account, and which request may be sent now, waits or is refused."""

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
    """Not now. `seconds` until it may be so; None: as soon as a request under way is over."""

    limit: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """GitHub said no, and until when."""

    limit: str
    until: float


class RateLimitAccount:
    """The state of one account."""

    def __init__(self, caps: RequestCaps) -> None:
        self._caps = caps
        self._point_caps = {kind: caps.points(kind) for kind in RequestKind}
        self._place_caps = {kind: caps.places(kind) for kind in RequestKind}
        self._point_share = caps.share(caps.points_per_minute)
        self._primary: PrimaryLimit | None = None
        self._answered = False
        self._flying = 0
        self._points = SlidingWindow(MINUTE)
        self._written = SlidingWindow(MINUTE)
        self._created = {MINUTE: SlidingWindow(MINUTE), HOUR: SlidingWindow(HOUR)}
        # What polls would have cost, had they not been stretched.
        self._paid = RequestCounts(HOUR_MEMORY)
        self._asked = RequestCounts(MINUTE_MEMORY)
        # When the polls that were turned away come again.
        self._line: deque[float] = deque()
        self._refused: RequestRefused | None = None
        self._refusals = 0
        self._episodes = 0

    def hold(self, kind: RequestKind, now: float) -> RateLimitHold | None:
        """What keeps a request from leaving now."""
        refused = self.refused(now)
        if refused is not None:
            return RateLimitHold(refused.limit, refused.until - now)
        if self._flying and not self._answered:
            return RateLimitHold(PRIMARY, None)
        primary = self.primary(now)
        if primary is not None and self._left(kind, primary) < 1:
            return RateLimitHold(
                PRIMARY, None if self._may_end_well(kind, primary) else primary.ends - now
            )
        if self._flying >= self._place_caps[kind]:
            return RateLimitHold(SECONDARY, None)
        if self._wait(kind, now) <= 0:
            return None
        return RateLimitHold(SECONDARY, self._wait(kind, now, self._in_line(kind, now)))

    def enter(self, kind: RequestKind, now: float) -> int:
        """A request leaves. Returned is how many times we were refused until then."""
        self._want(kind, now)
        self._flying += 1
        for window, amount in self._windows(kind):
            window.begin(amount)
        return self._episodes

    def held(self, kind: RequestKind, now: float) -> None:
        """A request had to wait for room: more was wanted than was spent."""
        self._want(kind, now)

    def turn_away(self, kind: RequestKind, hold: RateLimitHold, now: float) -> None:
        """A request may not leave, and comes again when it was told to."""
        if kind is RequestKind.READ and hold.limit == SECONDARY and hold.seconds:
            self._line.append(now + hold.seconds)

    def leave(self, kind: RequestKind, now: float, *, sent: bool) -> None:
        """A request is over; not `sent` if it surely never reached GitHub."""
        self._flying -= 1
        for window, amount in self._windows(kind):
            window.end(amount, now, counted=sent)

    def lost(self, now: float) -> None:
        """No answer came to a request that may have reached GitHub."""
        primary = self.primary(now)
        self._primary = charge_request(primary) if primary else None

    def answer(
        self, kind: RequestKind, status: int, said: ReportedLimit | None, now: float
    ) -> None:
        """An answer came."""
        if kind is RequestKind.READ and status != 304:
            self._paid.add(self.stretch(now), now)
        if status < 300 or status == 304:
            self._refusals = 0
        if status == 401:
            return  # it tells what strangers have left
        # A gateway that fails says nothing of the host behind it.
        self._answered = self._answered or said is not None or status < 400
        primary = self.primary(now)
        if said is not None:
            self._primary = apply_reported_limit(primary, said, now)
        elif primary is not None:
            self._primary = charge_request(primary)

    def refusals(self, episodes: int) -> int:
        """How many refusals in a row came before that of a request, by what `enter` returned."""
        together = episodes < self._episodes
        return self._refusals - 1 if together and self._refusals else self._refusals

    def refuse(self, limit: str, seconds: float, episodes: int, now: float) -> None:
        """GitHub refuses us for so long. Requests that were under way together count once."""
        self._refusals = self.refusals(episodes) + 1
        self._episodes = max(self._episodes, episodes + 1)
        lasts = self.refused(now)
        until = max(now + seconds, lasts.until if lasts else now)
        self._refused = RequestRefused(limit, until)

    def refused(self, now: float) -> RequestRefused | None:
        """GitHub's refusal, while it lasts."""
        held = self._refused is not None and now < self._refused.until
        return self._refused if held else None

    def primary(self, now: float) -> PrimaryLimit | None:
        """What is known of the hour; None before the first answer, or without such a limit."""
        return None if self._primary is None else current_limit(self._primary, now)

    def points(self, now: float) -> int:
        """The points of the last minute."""
        return self._points.total(now)

    def stretch(self, now: float, *, active: bool = False) -> float:
        """By how much the pauses between polls should grow."""
        idle = idle_stretch(max(self._hour_pressure(now), self._minute_pressure(now)))
        return active_stretch(idle) if active else idle

    def _want(self, kind: RequestKind, now: float) -> None:
        if kind is RequestKind.READ:
            self._asked.add(kind.points, now, slower=self.stretch(now))

    def _in_line(self, kind: RequestKind, now: float) -> int:
        """The points of those who were told to come again and have not come yet."""
        while self._line and self._line[0] <= now:
            self._line.popleft()
        return len(self._line) * kind.points if kind is RequestKind.READ else 0

    def _hour_pressure(self, now: float) -> float:
        primary = self.primary(now)
        if primary is None:
            return 0.0
        left = primary.remaining - self._floor(RequestKind.READ, primary)
        return hour_pressure(self._paid.rate(now), left, primary.ends - now)

    def _minute_pressure(self, now: float) -> float:
        return minute_pressure(self._asked.rate(now), self._point_share, self._written.total(now))

    def _left(self, kind: RequestKind, primary: PrimaryLimit) -> int:
        return primary.remaining - self._flying - self._floor(kind, primary)

    def _may_end_well(self, kind: RequestKind, primary: PrimaryLimit) -> bool:
        """Whether there is room if what is under way turns out to cost nothing."""
        return self._flying > 0 and primary.remaining > self._floor(kind, primary)

    def _floor(self, kind: RequestKind, primary: PrimaryLimit) -> int:
        """What must remain."""
        return primary.limit - self._caps.hourly(kind, primary.limit)

    def _wait(self, kind: RequestKind, now: float, in_line: int = 0) -> float:
        """Seconds until the windows have room for it, after those who wait in line."""
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
        """Where a request of a kind counts, and with how much."""
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
    """What is known of an account, by our wall clock; None where it is not known."""

    account: str
    limit: int | None
    remaining: int | None
    resets_at: datetime | None
    points: int
    idle_stretch: float
    active_stretch: float
    refused_until: datetime | None


class RequestTurn:
    """One request under way. It counts as lost unless somebody says how it ended."""

    def __init__(
        self, accounts: RateLimitAccounts, name: str, kind: RequestKind, episodes: int
    ) -> None:
        self._accounts = accounts
        self._name = name
        self._kind = kind
        self._episodes = episodes
        self.sent = True
        self.answered = False

    def never_left(self) -> None:
        """Nothing has reached GitHub."""
        self.sent = False

    def answer(self, status: int, budget: RateLimitBudget) -> None:
        """GitHub has answered."""
        self.answered = True
        self._accounts.answered(self._name, self._kind, status, budget)

    def refusals(self) -> int:
        """How many refusals in a row came before this request's."""
        return self._accounts.refusals(self._name, self._episodes)

    def refuse(self, refusal: RateLimitRefusal) -> None:
        """GitHub's answer was that we have to wait."""
        self._accounts.refuse(self._name, refusal, self._episodes)


class RateLimitAccounts:
    """The accounts by name. Requests of nobody (an empty name) are not counted."""

    def __init__(
        self, clock: Clock, caps: RequestCaps | None = None, patience: float = 0.0
    ) -> None:
        """`patience`: how long a request waits for what only time can bring."""
        self.caps = caps or RequestCaps()
        self._clock = clock
        self._patience = patience
        self._lock = threading.Lock()
        self._known: dict[str, RateLimitAccount] = {}
        self._payers: dict[RepoName, str] = {}
        self._waiting: set[Wakeup] = set()
        self._closed = False

    @contextmanager
    def turn(self, name: str, kind: RequestKind, words: str) -> Iterator[RequestTurn]:
        """A request under way, as soon as it may leave. Raises `RateLimited`."""
        if not name:
            yield RequestTurn(self, name, kind, 0)
            return
        turn = RequestTurn(self, name, kind, self._enter(name, kind, words))
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

    def standings(self) -> list[AccountStatus]:
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

    def answered(self, name: str, kind: RequestKind, status: int, budget: RateLimitBudget) -> None:
        """An answer came; see `Turn`."""
        if not name:
            return
        said = parse_reported_limit(budget, self._clock.now())
        with self._lock:
            self._account(name).answer(kind, status, said, self._clock.monotonic())

    def refusals(self, name: str, episodes: int) -> int:
        """How many refusals in a row; see `Turn`."""
        with self._lock:
            return self._account(name).refusals(episodes) if name else 0

    def refuse(self, name: str, refusal: RateLimitRefusal, episodes: int) -> None:
        """GitHub refuses an account; see `Turn`."""
        if not name:
            return
        metrics.count(GITHUB_REFUSALS, account=name, limit=refusal.limit, by="github")
        seconds = (refusal.until - self._clock.now()).total_seconds()
        with self._lock:
            now = self._clock.monotonic()
            self._account(name).refuse(refusal.limit, max(seconds, 0.0), episodes, now)

    def _enter(self, name: str, kind: RequestKind, words: str) -> int:
        """Wait until a request may leave. Raises `RateLimited` where that takes too long."""
        wake = self._clock.wakeup()
        began = self._clock.monotonic()
        try:
            while True:
                wake.clear()
                found = self._try(name, kind, wake)
                if not isinstance(found, RateLimitHold):
                    return found
                wake.wait(self._bearable(found, began, name, kind, words))
        finally:
            with self._lock:
                self._waiting.discard(wake)

    def _try(self, name: str, kind: RequestKind, wake: Wakeup) -> int | RateLimitHold:
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

    def _bearable(
        self, hold: RateLimitHold, began: float, name: str, kind: RequestKind, words: str
    ) -> float:
        """How long to wait; raises where that would be too long."""
        waited = self._clock.monotonic() - began
        # Requests under way end by themselves; only they are waited for without patience of ours.
        patience = MAX_WAIT if hold.seconds is None else self._patience
        needed = 0.0 if hold.seconds is None else hold.seconds
        if self._closed or waited + needed > patience or waited >= MAX_WAIT:
            raise self._refusal(hold, name, kind, words)
        return patience - waited if hold.seconds is None else needed

    def _refusal(
        self, hold: RateLimitHold, name: str, kind: RequestKind, words: str
    ) -> RateLimited:
        metrics.count(GITHUB_REFUSALS, account=name, limit=hold.limit, by="us")
        with self._lock:
            self._account(name).turn_away(kind, hold, self._clock.monotonic())
        seconds = BUSY_RETRY_SECONDS if hold.seconds is None else hold.seconds
        until = self._clock.now() + timedelta(seconds=seconds)
        return RateLimited(words, 0, until, hold.limit)

    def _leave(self, name: str, kind: RequestKind, turn: RequestTurn) -> None:
        with self._lock:
            now, account = self._clock.monotonic(), self._account(name)
            account.leave(kind, now, sent=turn.sent)
            if turn.sent and not turn.answered:
                account.lost(now)
            self._wake()
            standing = self._standing(name)
        _publish_metrics(standing)

    def _wake(self) -> None:
        for wake in self._waiting:
            wake.set()

    def _account(self, name: str) -> RateLimitAccount:
        return self._known.setdefault(name, RateLimitAccount(self.caps))

    def _standing(self, name: str) -> AccountStatus:
        now, wall = self._clock.monotonic(), self._clock.now()
        account = self._account(name)
        primary, refused = account.primary(now), account.refused(now)
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


def _publish_metrics(standing: AccountStatus) -> None:
    account = standing.account
    if standing.limit is not None and standing.remaining is not None:
        metrics.set(GITHUB_BUDGET_LIMIT, standing.limit, account=account)
        metrics.set(GITHUB_BUDGET_REMAINING, standing.remaining, account=account)
    metrics.set(GITHUB_POINTS, standing.points, account=account)
    metrics.set(GITHUB_STRETCH, standing.idle_stretch, account=account, repositories="idle")
    metrics.set(GITHUB_STRETCH, standing.active_stretch, account=account, repositories="active")
