"""One account: what it may ask now, and what becomes of it by each answer.

Touches no clock, lock or network: time is an argument, in seconds that never run backwards.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hostler.forge.budget.caps import HOUR, MINUTE, Caps, Kind
from hostler.forge.budget.primary import Primary, Told, charged, heard, present
from hostler.forge.budget.stretching import (
    HOUR_MEMORY,
    MINUTE_MEMORY,
    active_stretch,
    hour_pressure,
    idle_stretch,
    minute_pressure,
)
from hostler.forge.budget.windows import Tally, Window

PRIMARY, SECONDARY = "primary", "secondary"


@dataclass(frozen=True, slots=True)
class Hold:
    """Not now. `seconds` until it may be so; None: as soon as a request under way is over."""

    limit: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Refused:
    """GitHub said no, and until when."""

    limit: str
    until: float


class Account:
    """The state of one account."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._point_caps = {kind: caps.points(kind) for kind in Kind}
        self._place_caps = {kind: caps.places(kind) for kind in Kind}
        self._point_share = caps.share(caps.points_per_minute)
        self._primary: Primary | None = None
        self._answered = False
        self._flying = 0
        self._points = Window(MINUTE)
        self._written = Window(MINUTE)
        self._created = {MINUTE: Window(MINUTE), HOUR: Window(HOUR)}
        # What polls would have cost, had they not been stretched.
        self._paid = Tally(HOUR_MEMORY)
        self._asked = Tally(MINUTE_MEMORY)
        # When the polls that were turned away come again.
        self._line: deque[float] = deque()
        self._refused: Refused | None = None
        self._refusals = 0
        self._episodes = 0

    def hold(self, kind: Kind, now: float) -> Hold | None:
        """What keeps a request from leaving now."""
        refused = self.refused(now)
        if refused is not None:
            return Hold(refused.limit, refused.until - now)
        if self._flying and not self._answered:
            return Hold(PRIMARY, None)
        primary = self.primary(now)
        if primary is not None and self._left(kind, primary) < 1:
            return Hold(PRIMARY, None if self._may_end_well(kind, primary) else primary.ends - now)
        if self._flying >= self._place_caps[kind]:
            return Hold(SECONDARY, None)
        if self._wait(kind, now) <= 0:
            return None
        return Hold(SECONDARY, self._wait(kind, now, self._in_line(kind, now)))

    def enter(self, kind: Kind, now: float) -> int:
        """A request leaves. Returned is how many times we were refused until then."""
        self._want(kind, now)
        self._flying += 1
        for window, amount in self._windows(kind):
            window.begin(amount)
        return self._episodes

    def held(self, kind: Kind, now: float) -> None:
        """A request had to wait for room: more was wanted than was spent."""
        self._want(kind, now)

    def turn_away(self, kind: Kind, hold: Hold, now: float) -> None:
        """A request may not leave, and comes again when it was told to."""
        if kind is Kind.READ and hold.limit == SECONDARY and hold.seconds:
            self._line.append(now + hold.seconds)

    def leave(self, kind: Kind, now: float, *, sent: bool) -> None:
        """A request is over; not `sent` if it surely never reached GitHub."""
        self._flying -= 1
        for window, amount in self._windows(kind):
            window.end(amount, now, counted=sent)

    def lost(self, now: float) -> None:
        """No answer came to a request that may have reached GitHub."""
        primary = self.primary(now)
        self._primary = charged(primary) if primary else None

    def answer(self, kind: Kind, status: int, said: Told | None, now: float) -> None:
        """An answer came."""
        if kind is Kind.READ and status != 304:
            self._paid.add(self.stretch(now), now)
        if status < 300 or status == 304:
            self._refusals = 0
        if status == 401:
            return  # it tells what strangers have left
        # A gateway that fails says nothing of the host behind it.
        self._answered = self._answered or said is not None or status < 400
        primary = self.primary(now)
        if said is not None:
            self._primary = heard(primary, said, now)
        elif primary is not None:
            self._primary = charged(primary)

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
        self._refused = Refused(limit, until)

    def refused(self, now: float) -> Refused | None:
        """GitHub's refusal, while it lasts."""
        held = self._refused is not None and now < self._refused.until
        return self._refused if held else None

    def primary(self, now: float) -> Primary | None:
        """What is known of the hour; None before the first answer, or without such a limit."""
        return None if self._primary is None else present(self._primary, now)

    def points(self, now: float) -> int:
        """The points of the last minute."""
        return self._points.total(now)

    def stretch(self, now: float, *, active: bool = False) -> float:
        """By how much the pauses between polls should grow."""
        idle = idle_stretch(max(self._hour_pressure(now), self._minute_pressure(now)))
        return active_stretch(idle) if active else idle

    def _want(self, kind: Kind, now: float) -> None:
        if kind is Kind.READ:
            self._asked.add(kind.points, now, slower=self.stretch(now))

    def _in_line(self, kind: Kind, now: float) -> int:
        """The points of those who were told to come again and have not come yet."""
        while self._line and self._line[0] <= now:
            self._line.popleft()
        return len(self._line) * kind.points if kind is Kind.READ else 0

    def _hour_pressure(self, now: float) -> float:
        primary = self.primary(now)
        if primary is None:
            return 0.0
        left = primary.remaining - self._floor(Kind.READ, primary)
        return hour_pressure(self._paid.rate(now), left, primary.ends - now)

    def _minute_pressure(self, now: float) -> float:
        return minute_pressure(self._asked.rate(now), self._point_share, self._written.total(now))

    def _left(self, kind: Kind, primary: Primary) -> int:
        return primary.remaining - self._flying - self._floor(kind, primary)

    def _may_end_well(self, kind: Kind, primary: Primary) -> bool:
        """Whether there is room if what is under way turns out to cost nothing."""
        return self._flying > 0 and primary.remaining > self._floor(kind, primary)

    def _floor(self, kind: Kind, primary: Primary) -> int:
        """What must remain."""
        return primary.limit - self._caps.hourly(kind, primary.limit)

    def _wait(self, kind: Kind, now: float, in_line: int = 0) -> float:
        """Seconds until the windows have room for it, after those who wait in line."""
        caps = self._caps
        waits = [self._points.wait(kind.points + in_line, self._point_caps[kind], now)]
        if kind is Kind.CREATION:
            for seconds, limit in (
                (MINUTE, caps.creations_per_minute),
                (HOUR, caps.creations_per_hour),
            ):
                waits.append(self._created[seconds].wait(1, caps.share(limit), now))
        return max(waits)

    def _windows(self, kind: Kind) -> list[tuple[Window, int]]:
        """Where a request of a kind counts, and with how much."""
        found = [(self._points, kind.points)]
        if kind in (Kind.WRITE, Kind.CREATION):
            found.append((self._written, kind.points))
        if kind is Kind.CREATION:
            found += [(window, 1) for window in self._created.values()]
        return found
