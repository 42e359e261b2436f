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
    """A thread that sends."""

    def start(self) -> None: ...
    def wake(self) -> None: ...
    def leave(self, timeout: float) -> bool: ...


class SenderThreads:
    """Several sender threads as one."""

    def __init__(self, *messengers: SenderThread) -> None:
        self._all = messengers

    def start(self) -> None:
        """Start the thread."""
        for one in self._all:
            one.start()

    def wake(self) -> None:
        """Check for something new to send."""
        for one in self._all:
            one.wake()

    def leave(self, timeout: float) -> bool:
        """Stop. Return True if all have stopped in time."""
        # Stop every thread, even if an earlier one is late.
        left = [one.leave(timeout) for one in self._all]
        return all(left)


class OutboxThread:
    """Sends queued writes. A running write is finished before the thread stops."""

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
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Check for something new to send."""
        self._news.set()

    def leave(self, timeout: float) -> bool:
        """Stop. Return True if the thread has stopped in time."""
        self._leaving = True
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._leaving:
            # Clear first: an event during the check leads to another one.
            self._news.clear()
            seconds = self._send()
            if not self._leaving:
                self._news.wait(seconds)

    def _send(self) -> float | None:
        """Send what is due; return in how many seconds to check again."""
        try:
            again = [self._sender.send_due(), self._reconciler.find_due()]
        except Exception as error:  # a busy database or a defect must not end the thread
            self._troubled(error)
            return ERROR_PAUSE_SECONDS
        return min((self._until(moment) for moment in again if moment is not None), default=None)

    def _until(self, moment: datetime) -> float:
        return max((moment - self._clock.now()).total_seconds(), 0.01)
