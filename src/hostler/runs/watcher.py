"""One thread that sees shims end, through pidfds: no polling, and nothing is reaped elsewhere."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

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
