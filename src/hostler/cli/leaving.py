"""Signals that ask a service to leave: one ear, from the start of the process to its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from hostler.cli.output import note

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker(Protocol):
    """Somebody who can be asked to leave."""

    def leave(self, *, stop_agents: bool = False) -> None: ...


class Ear:
    """The first signal asks to leave; the second leaves now: what is cut off is taken up again.

    Whoever works is attached; one that comes after the signal leaves at once.
    """

    def __init__(
        self, *, stop_agents: bool = False, told: Callable[[], None] = lambda: None
    ) -> None:
        self._stop_agents = stop_agents
        self._told = told
        self._worker: Worker | None = None
        self.asked = False

    def listen(self) -> None:
        """Hear signals from now on, also those that the program before us held back for us."""
        for number in SIGNALS:
            signal.signal(number, self._hear)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def attach(self, worker: Worker) -> None:
        """This one is to leave when it is asked for."""
        # In this order: a signal in between finds one or the other.
        self._worker = worker
        if self.asked:
            worker.leave(stop_agents=self._stop_agents)

    def leaves(self) -> bool:
        """Whether we were asked to leave."""
        return self.asked

    def _hear(self, number: int, _frame: Any) -> None:
        if self.asked:
            os._exit(128 + number)
        self.asked = True
        self._told()
        # From another thread: here we may have interrupted the very lock that is needed.
        threading.Thread(target=self._leave, args=(number, self._worker)).start()

    def _leave(self, number: int, worker: Worker | None) -> None:
        if number == signal.SIGINT and sys.stdin.isatty():
            ends = "agents are ended" if self._stop_agents else "agents at work go on"
            note(f"Leaving; {ends}. Ctrl-C once more: leave now, whatever is under way.")
        if worker is not None:
            worker.leave(stop_agents=self._stop_agents)
