"""Wait for shims to end, our own children and adopted ones."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from hostler.clock import Wakeup
from hostler.runs.run_folder import is_locked
from hostler.runs.states import WatchClosed
from hostler.shim import processes, run_files
from hostler.shim.supervisor import EXIT_DONE

# The exit code of a shim, where it is our child and left by itself.
Ended = Callable[[int | None], None]


class Watcher:
    """Calls back when a process has ended. Owns the pidfds that it is given."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._poll = select.epoll()
        self._watched: dict[int, Ended] = {}
        self._bell = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll.register(self._bell, select.EPOLLIN)
        self._closing = False
        self._thread: threading.Thread | None = None

    def watch(self, pidfd: int, ended: Ended) -> None:
        """Call `ended` once, from the watching thread, when this process has ended."""
        with self._mutex:
            if self._closing:
                os.close(pidfd)
                raise RuntimeError("the watcher is closed")
            self._watched[pidfd] = ended
            self._poll.register(pidfd, select.EPOLLIN)
            if self._thread is None:
                self._thread = threading.Thread(target=self._see, name="runs", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop watching; the processes go on."""
        with self._mutex:
            if self._closing:
                return
            self._closing = True
            thread = self._thread
        os.eventfd_write(self._bell, 1)
        if thread is not None:
            thread.join()
        self._poll.close()
        for descriptor in (*self._watched, self._bell):
            os.close(descriptor)
        self._watched.clear()

    def _see(self) -> None:
        while not self._closing:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._bell:
                    self._over(descriptor)

    def _over(self, pidfd: int) -> None:
        code = reap(pidfd)
        with self._mutex:
            self._poll.unregister(pidfd)
            ended = self._watched.pop(pidfd)
        os.close(pidfd)
        ended(code)


def reap(pidfd: int) -> int | None:
    """The exit code of a child that has ended; None for others' children and for signals."""
    try:
        left = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        return None
    return left.si_status if left and left.si_code == os.CLD_EXITED else None


class ProcessWatch:
    """An eye on one shim. Whoever leaves its block lets go of it."""

    def __init__(self, run: str, over: Wakeup, let_go: Callable[[ProcessWatch], None]) -> None:
        self.run = run
        self._over = over
        self._let_go = let_go
        self._code: int | None = None
        self._closed = False

    @property
    def left_well(self) -> bool:
        """Whether we saw it leave after its last word."""
        return self._code == EXIT_DONE

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

    def __enter__(self) -> ProcessWatch:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._let_go(self)


def watch_existing(
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
        arguments = (folder / run_files.LOCK_FILE, ended)
        threading.Thread(target=_wait_for, args=arguments, name="run lock", daemon=True).start()
    else:
        ended(None)


def notify_stop(known: Mapping[str, Any]) -> None:
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
    if not isinstance(pid, int) or processes.is_alive(known) is not True:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    # Only now the pid cannot pass on any more.
    if processes.is_alive(known) is True:
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
