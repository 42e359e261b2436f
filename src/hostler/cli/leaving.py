"""Signals that ask a service to leave: one ear, from the start of the process to its end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hostler.cli.output import note

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# On a screen: the terminal was closed.
WITH_HANG_UP = (*SIGNALS, signal.SIGHUP)


class Worker(Protocol):
    """Somebody who can be asked to leave."""

    def leave(self, *, stop_agents: bool = False) -> None: ...


class Ear:
    """The first signal asks to leave; the second leaves now: what is cut off is taken up again.

    Whoever works is attached; one that comes after the signal leaves at once.
    """

    def __init__(
        self,
        *,
        stop_agents: bool = False,
        told: Callable[[], None] = lambda: None,
        cut_off: Callable[[], None] = lambda: None,
        signals: Sequence[signal.Signals] = SIGNALS,
    ) -> None:
        """`cut_off`: what is done before it leaves at once."""
        self._stop_agents = stop_agents
        self._told = told
        self._cut_off = cut_off
        self._signals = signals
        self._worker: Worker | None = None
        self.asked = False

    def listen(self) -> None:
        """Hear signals from now on, also those that the program before us held back for us."""
        for number in self._signals:
            signal.signal(number, self._hear)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)

    def attach(self, worker: Worker) -> None:
        """This one is to leave when it is asked for."""
        # In this order: a signal in between finds one or the other.
        self._worker = worker
        if self.asked:
            worker.leave(stop_agents=self._stop_agents)

    def leaves(self) -> bool:
        """Whether we were asked to leave."""
        return self.asked

    def ask(self) -> None:
        """Ask as the first Ctrl-C does."""
        if not self.asked:
            self._hear(signal.SIGINT, None)

    def _hear(self, number: int, _frame: Any) -> None:
        if self.asked:
            if number == signal.SIGHUP:
                # A terminal that goes says so more than once; nobody is impatient.
                return
            self._cut_off()
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
