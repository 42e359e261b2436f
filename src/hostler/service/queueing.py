"""How many agents wait for one of the home's run slots, for whoever counts."""

from __future__ import annotations

from collections.abc import Callable

from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import QUEUED_RUNS

# Told how many more (or fewer) wait than before.
WaitingRunHook = Callable[[int], None]


class QueuedRuns:
    """Tasks that only a run slot holds back."""

    def __init__(self) -> None:
        self._waiting = 0
        self._hook: WaitingRunHook | None = None

    def set_waiting_run_hook(self, hook: WaitingRunHook | None) -> None:
        """Have each change told; None: to nobody."""
        self._hook = hook

    def count(self, waiting: int) -> None:
        """So many wait now."""
        self._set(waiting)

    def clear(self) -> None:
        """Nobody waits here any more: the service leaves."""
        self._set(0)

    def _set(self, waiting: int) -> None:
        change, self._waiting = waiting - self._waiting, waiting
        metrics.set(QUEUED_RUNS, waiting)
        if change and self._hook is not None:
            self._hook(change)
