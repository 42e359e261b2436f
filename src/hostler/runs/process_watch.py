"""Wait for shims to exit, both children of this process and adopted ones."""

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

# Called with the exit code; None if the shim is not a child of this process, or was killed.
OnExit = Callable[[int | None], None]


class ExitWatcher:
    """Calls back when a process exits. Owns the pidfds that it is given."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._poll = select.epoll()
        self._watched: dict[int, OnExit] = {}
        self._wakeup_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll.register(self._wakeup_fd, select.EPOLLIN)
        self._closing = False
        self._thread: threading.Thread | None = None

    def watch(self, pidfd: int, on_exit: OnExit) -> None:
        """Call `on_exit` once, from the watching thread, when the process exits."""
        with self._mutex:
            if self._closing:
                os.close(pidfd)
                raise RuntimeError("the watcher is closed")
            self._watched[pidfd] = on_exit
            self._poll.register(pidfd, select.EPOLLIN)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch_loop, name="runs", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop watching; the processes continue."""
        with self._mutex:
            if self._closing:
                return
            self._closing = True
            thread = self._thread
        os.eventfd_write(self._wakeup_fd, 1)
        if thread is not None:
            thread.join()
        self._poll.close()
        for descriptor in (*self._watched, self._wakeup_fd):
            os.close(descriptor)
        self._watched.clear()

    def _watch_loop(self) -> None:
        while not self._closing:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._wakeup_fd:
                    self._handle_exit(descriptor)

    def _handle_exit(self, pidfd: int) -> None:
        code = reap(pidfd)
        with self._mutex:
            self._poll.unregister(pidfd)
            on_exit = self._watched.pop(pidfd)
        os.close(pidfd)
        on_exit(code)


def reap(pidfd: int) -> int | None:
    """Return the exit code of a child; None for processes of others and after a signal."""
    try:
        exited = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        return None
    return exited.si_status if exited and exited.si_code == os.CLD_EXITED else None


class ProcessWatch:
    """A watch on one shim, released at the end of its `with` block."""

    def __init__(
        self, run: str, exited: Wakeup, on_release: Callable[[ProcessWatch], None]
    ) -> None:
        self.run = run
        self._exited = exited
        self._on_release = on_release
        self._code: int | None = None
        self._closed = False

    @property
    def exited_cleanly(self) -> bool:
        """Whether this process saw the shim exit after it wrote exit.json."""
        return self._code == EXIT_DONE

    @property
    def has_exited(self) -> bool:
        """Whether the shim has exited."""
        return self._exited.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the exit or the timeout. Return whether the shim has exited."""
        exited = self._exited.wait(timeout)
        if self._closed:
            raise WatchClosed(self.run)
        return exited

    def close(self) -> None:
        """Stop watching; the run continues."""
        if not self.has_exited:
            self._closed = True
            self._exited.set()

    def record_exit(self, code: int | None) -> None:
        """Record that the shim has exited, with its exit code if it is known."""
        self._code = code
        self._exited.set()

    def __enter__(self) -> ProcessWatch:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._on_release(self)


def watch_existing(
    watcher: ExitWatcher,
    folder: Path,
    identity: Mapping[str, Any] | None,
    on_exit: Callable[[int | None], None],
) -> None:
    """Call `on_exit` when the shim of a folder has exited; at once if there is none."""
    if identity is not None and (pidfd := _pidfd_of(identity)) is not None:
        watcher.watch(pidfd, on_exit)
    elif is_locked(folder):
        # The process is not visible from here: wait for its file lock instead.
        arguments = (folder / run_files.LOCK_FILE, on_exit)
        threading.Thread(target=_wait_for, args=arguments, name="run lock", daemon=True).start()
    else:
        on_exit(None)


def notify_stop(identity: Mapping[str, Any]) -> None:
    """Make a shim read its stop.json."""
    if (pidfd := _pidfd_of(identity)) is not None:
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGUSR1)
        except ProcessLookupError:
            return
        finally:
            os.close(pidfd)


def _pidfd_of(identity: Mapping[str, Any]) -> int | None:
    """Return a descriptor of exactly this process; None if it has exited or is not visible."""
    pid = identity.get("pid")
    if not isinstance(pid, int) or processes.is_alive(identity) is not True:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    # Check again: only now the pid can no longer be reused.
    if processes.is_alive(identity) is True:
        return pidfd
    os.close(pidfd)
    return None


def _wait_for(path: Path, on_exit: Callable[[int | None], None]) -> None:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    except OSError:
        pass  # The folder is gone; the waiting caller checks again.
    on_exit(None)
