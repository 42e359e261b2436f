"""Eyes on runs: how each is woken when its shim has left."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from hostler.clock import Wakeup
from hostler.runs.errors import WatchClosed
from hostler.runs.evidence import is_locked
from hostler.runs.watcher import Watcher
from hostler.shim import identity, lock
from hostler.shim.life import SAID


class Eye:
    """An eye on one shim. Whoever leaves its block lets go of it."""

    def __init__(self, run: str, over: Wakeup, let_go: Callable[[Eye], None]) -> None:
        self.run = run
        self._over = over
        self._let_go = let_go
        self._code: int | None = None
        self._closed = False

    @property
    def left_well(self) -> bool:
        """Whether we saw it leave after its last word."""
        return self._code == SAID

    @property
    def over(self) -> bool:
        """Whether it has left."""
        return self._over.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Until it has left, or the time is over; whether it has left."""
        over = self._over.wait(timeout)
        if self._closed:
            raise WatchClosed(self.run)
        return over

    def close(self) -> None:
        """Nobody watches any more; the run goes on."""
        if not self.over:
            self._closed = True
            self._over.set()

    def ended(self, code: int | None) -> None:
        """It has left; with this code, if anybody saw it."""
        self._code = code
        self._over.set()

    def __enter__(self) -> Eye:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._let_go(self)


def adopt(
    watcher: Watcher,
    folder: Path,
    known: Mapping[str, Any] | None,
    ended: Callable[[int | None], None],
) -> None:
    """Have `ended` called when the shim of a folder has left; at once if there is none."""
    if known is not None and (pidfd := pidfd_of(known)) is not None:
        watcher.watch(pidfd, ended)
    elif is_locked(folder):
        # Its process cannot be seen: wait in the kernel's queue for its lock.
        arguments = (folder / lock.NAME, ended)
        threading.Thread(target=_wait_for, args=arguments, name="run lock", daemon=True).start()
    else:
        ended(None)


def wake(known: Mapping[str, Any]) -> None:
    """Have a shim look for its stop.json."""
    if (pidfd := pidfd_of(known)) is not None:
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGUSR1)
        except ProcessLookupError:
            return
        finally:
            os.close(pidfd)


def pidfd_of(known: Mapping[str, Any]) -> int | None:
    """A descriptor of that very process; None where it has ended or cannot be seen."""
    pid = known.get("pid")
    if not isinstance(pid, int) or identity.is_alive(known) is not True:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    # Only now the pid cannot pass on any more.
    if identity.is_alive(known) is True:
        return pidfd
    os.close(pidfd)
    return None


def _wait_for(path: Path, ended: Callable[[int | None], None]) -> None:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    except OSError:
        pass  # the folder is gone; whoever waits looks again
    ended(None)
