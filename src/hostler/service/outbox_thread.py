"""The thread that sends queued GitHub writes and reconciles unobserved ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from hostler.clock import Clock
from hostler.forge.outbox.reconciler import WriteReconciler
from hostler.forge.outbox.sender import OutboxSender

ERROR_PAUSE_SECONDS = 5.0


class SenderThread(Protocol):
    """Somebody who sends in a thread of its own."""

    def start(self) -> None: ...
    def wake(self) -> None: ...
    def leave(self, timeout: float) -> bool: ...


class SenderThreads:
    """All who send, as one."""

    def __init__(self, *messengers: SenderThread) -> None:
        self._all = messengers

    def start(self) -> None:
        """Begin to send."""
        for one in self._all:
            one.start()

    def wake(self) -> None:
        """There may be something new to send."""
        for one in self._all:
            one.wake()

    def leave(self, timeout: float) -> bool:
        """End; whether all have ended in time."""
        # Each is asked, whatever the one before has said.
        left = [one.leave(timeout) for one in self._all]
        return all(left)


class OutboxThread:
    """Sends until it is told to leave; a write under way is finished first."""

    def __init__(
        self,
        sender: OutboxSender,
        reconciler: WriteReconciler,
        clock: Clock,
        troubled: Callable[[BaseException], None],
    ) -> None:
        self._sender = sender
        self._reconciler = reconciler
        self._clock = clock
        self._troubled = troubled
        self._news = clock.wakeup()
        self._leaving = False
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something new to send."""
        self._news.set()

    def leave(self, timeout: float) -> bool:
        """End; whether it has ended in time."""
        self._leaving = True
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._leaving:
            # Cleared before looking: news that arrive meanwhile cause one more look.
            self._news.clear()
            seconds = self._send()
            if not self._leaving:
                self._news.wait(seconds)

    def _send(self) -> float | None:
        """Send what is due; in how many seconds to look again."""
        try:
            again = [self._sender.send_due(), self._reconciler.find_due()]
        except Exception as error:  # a busy database, or a defect: neither ends all sending
            self._troubled(error)
            return ERROR_PAUSE_SECONDS
        return min((self._until(moment) for moment in again if moment is not None), default=None)

    def _until(self, moment: datetime) -> float:
        return max((moment - self._clock.now()).total_seconds(), 0.01)
