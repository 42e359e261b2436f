"""The sender's thread: what is due in the outbox goes out; what nobody has seen is looked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from hostler.clock import Clock
from hostler.forge import Reconciler, Sender

PAUSE_AFTER_TROUBLE = 5.0


class Messenger(Protocol):
    """Somebody who sends in a thread of its own."""

    def start(self) -> None: ...
    def wake(self) -> None: ...
    def leave(self, timeout: float) -> bool: ...


class Messengers:
    """All who send, as one."""

    def __init__(self, *messengers: Messenger) -> None:
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


class Outgoing:
    """Sends until it is told to leave; a write under way is finished first."""

    def __init__(
        self,
        sender: Sender,
        reconciler: Reconciler,
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
            again = [self._sender.send_due(), self._reconciler.look_due()]
        except Exception as error:  # a busy database, or a defect: neither ends all sending
            self._troubled(error)
            return PAUSE_AFTER_TROUBLE
        return min((self._until(moment) for moment in again if moment is not None), default=None)

    def _until(self, moment: datetime) -> float:
        return max((moment - self._clock.now()).total_seconds(), 0.01)
