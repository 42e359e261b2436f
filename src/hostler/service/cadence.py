"""Whose look is next where repositories take turns: one per interval, in their order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hostler.clock import Clock
from hostler.service.orchestrator import RepoOrchestrator


def whose_turn(names: Sequence[str], last: str | None, able: Collection[str]) -> str | None:
    """The first after the last one that can be looked at now; the last itself if no other can."""
    after = names.index(last) + 1 if last in names else 0
    return next((name for name in (*names[after:], *names[:after]) if name in able), None)


class Rota:
    """Calls one repository per interval. Where each has its own interval, it calls nobody."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.monotonic()
        self._last: str | None = None

    def call(self, orchestrators: Sequence[RepoOrchestrator]) -> None:
        """Let the next one look, if it is time."""
        taking = [one for one in orchestrators if one.rhythm.by_turns]
        now = self._clock.monotonic()
        if not taking or now < self._due:
            return
        self._due = now + taking[0].rhythm.interval
        able = {one.project: one for one in taking if one.can_look()}
        chosen = whose_turn([one.project for one in taking], self._last, able)
        if chosen is not None:
            self._last = chosen
            able[chosen].hasten()

    def seconds_left(self, orchestrators: Sequence[RepoOrchestrator]) -> float | None:
        """Until the next call; None if nobody takes turns."""
        if not any(one.rhythm.by_turns for one in orchestrators):
            return None
        return max(self._due - self._clock.monotonic(), 0.0)
