"""Hours of many repositories in an instant: polls that stretch, a host that counts."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import count

from hostler.forge.github.rate_limit.accounts import MAX_WAIT, RateLimitAccount
from hostler.forge.github.rate_limit.limits import ReportedLimit, RequestCaps, RequestKind

FEEDS = 4
ACTIVE = FEEDS + 1
IDLE_EVERY = 5
THREADS = 4
LATENCY = 0.1

# Something that goes on: it says how many seconds it pauses.
Going = Iterator[float]


@dataclass
class Town:
    """Repositories that are polled at an interval times the stretch, by one account.

    `changes(now)` says whether a request finds something new, and is paid for.
    """

    active: int
    idle: int
    interval: float = 60.0
    limit: int = 5000
    changes: Callable[[float], bool] = lambda now: False
    caps: RequestCaps = field(default_factory=RequestCaps)
    # Between writes; 0: none are made.
    writes_every: float = 0.0

    def __post_init__(self) -> None:
        self.account = RateLimitAccount(self.caps)
        self.now = 0.0
        self.used, self.reset = 0, 3600.0
        self.paid_by_hour: list[int] = [0]
        self.most_points = 0
        self.refused = 0
        self.longest_wait_of_a_write = 0.0
        self.written = 0
        # (moment, idle stretch, active stretch), each minute.
        self.stretches: list[tuple[float, float, float]] = []
        self.polls = {True: 0, False: 0}
        self._points: deque[tuple[float, int]] = deque()
        self._in_window = 0
        # When each repository is looked at again: all at once, as after a start.
        self._repos = [(0.0, number, 0) for number in range(self.active + self.idle)]
        self._due: list[tuple[float, int, Going]] = []
        self._numbers = count()

    def run(self, hours: float) -> Town:
        for _ in range(THREADS):
            self._later(0.0, self._thread())
        self._later(0.0, self._observer())
        if self.writes_every:
            self._later(0.0, self._sender())
        while self._due[0][0] < hours * 3600:
            self.now, _, going = heapq.heappop(self._due)
            self._later(next(going), going)
        return self

    def _later(self, seconds: float, going: Going) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), going))

    def _observer(self) -> Going:
        while True:
            pair = (self.account.stretch(self.now), self.account.stretch(self.now, active=True))
            self.stretches.append((self.now, *pair))
            yield 60.0

    def _sender(self) -> Going:
        while True:
            yield self.writes_every
            asked = self.now
            while (hold := self.account.find_hold(RequestKind.CREATION, self.now)) is not None:
                yield LATENCY if hold.seconds is None else hold.seconds
            self.longest_wait_of_a_write = max(self.longest_wait_of_a_write, self.now - asked)
            yield from self._exchange(RequestKind.CREATION)
            self.written += 1

    def _thread(self) -> Going:
        """Looks at one repository after another, as they become due."""
        while True:
            if self._repos[0][0] > self.now:
                yield min(self._repos[0][0] - self.now, 1.0)
                continue
            _, number, polls = heapq.heappop(self._repos)
            active = number < self.active
            full = polls == 0 or (polls + number) % IDLE_EVERY == 0
            held = yield from self._look(ACTIVE if active else FEEDS if full else 1)
            if held is None:
                self.polls[active] += 1
                pause = self.interval * self.account.stretch(self.now, active=active)
                heapq.heappush(self._repos, (self.now + pause, number, polls + 1))
            else:
                heapq.heappush(self._repos, (self.now + held, number, polls))

    def _look(self, requests: int) -> Generator[float, None, float | None]:
        """All of one look; or for how long it was turned away."""
        for _ in range(requests):
            patience = MAX_WAIT
            while (hold := self.account.find_hold(RequestKind.READ, self.now)) is not None:
                wait = LATENCY if hold.seconds is None else hold.seconds
                if patience == MAX_WAIT:
                    self.account.record_wait(RequestKind.READ, self.now)
                if wait > patience:
                    self.account.record_refused_poll(RequestKind.READ, hold, self.now)
                    self.refused += 1
                    return wait
                patience -= wait
                yield wait
            yield from self._exchange(RequestKind.READ)
        return None

    def _exchange(self, kind: RequestKind) -> Going:
        self.account.start_request(kind, self.now)
        paid = kind is not RequestKind.READ or self.changes(self.now)
        said = self._host(kind, paid)
        yield LATENCY
        self.account.record_answer(kind, 200 if paid else 304, said, self.now)
        self.account.end_request(kind, self.now, sent=True)

    def _host(self, kind: RequestKind, paid: bool) -> ReportedLimit:
        if self.now >= self.reset:
            self.used, self.reset = 0, self.now + 3600
        while len(self.paid_by_hour) <= self.now // 3600:
            self.paid_by_hour.append(0)
        self.used += paid
        self.paid_by_hour[-1] += paid
        while self._points and self._points[0][0] <= self.now - 60:
            self._in_window -= self._points.popleft()[1]
        self._points.append((self.now, kind.points))
        self._in_window += kind.points
        self.most_points = max(self.most_points, self._in_window)
        return ReportedLimit(self.limit, self.limit - self.used, self.reset - self.now)
