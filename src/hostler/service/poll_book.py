"""Looks at repositories, counted: how late each was, and how many saw everything."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta

from hostler.clock import Clock
from hostler.model import stamp
from hostler.service.orchestrator import Look, RepoOrchestrator
from hostler.store.repositories import Polls


def on_time(lag: float, interval: float) -> bool:
    """Whether a look was over before the next one of its interval would have been due."""
    return lag <= interval


def counted(look: Look, interval: float, at: str) -> Polls:
    """One look that is over. One that did not see all is failed, however fast it was."""
    failed = look.error is not None
    late = not failed and not on_time(look.lag, interval)
    return Polls(1, int(late), int(failed), look.lag, look.lag, at, look.lag)


class PollBook:
    """Counts until somebody takes the numbers away to store them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._counted: dict[str, Polls] = {}
        # Those of which it is stored that they are late: once they are not, that is news.
        self._late: set[str] = set()

    def note(self, look: Look, interval: float) -> None:
        """A look is over."""
        one = counted(look, interval, stamp(self._clock.now()))
        with self._guard:
            self._counted[look.project] = self._counted.get(look.project, Polls()) + one

    def take(self, orchestrators: Iterable[RepoOrchestrator]) -> dict[str, Polls]:
        """What was counted since the last time, and who is late now. Empty: nothing to store."""
        late = {one.project: self._late_since(one) for one in orchestrators}
        with self._guard:
            found, self._counted = self._counted, {}
        told = {*found, *self._late, *(project for project, since in late.items() if since)}
        self._late = {project for project, since in late.items() if since}
        return {
            project: found.get(project, Polls()) + Polls(late_since=late.get(project, ""))
            for project in sorted(told)
        }

    def _late_since(self, orchestrator: RepoOrchestrator) -> str:
        waiting = orchestrator.waiting()
        if on_time(waiting, orchestrator.rhythm.interval):
            return ""
        return stamp(self._clock.now() - timedelta(seconds=waiting))
