"""The keeper: starts the service and sees to it that nothing of it outlives the demo.

python -P -m hostler.cli.demo.keeper FOLDER LOG -- PROGRAM ARGUMENT…

It listens on standard input (docs/demo.md). End of file, by whatever death of the demo, is the
order to end everything and to remove the folder.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hostler.shim import tree
from hostler.shim.kernel import PR_SET_PDEATHSIG, become_subreaper

SERVICE_SECONDS = 20.0
STRAY_SECONDS = 3.0
_LOOK_SECONDS = 0.05


class Orders:
    """What the demo says on the pipe."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._heard = b""
        self.over = False

    @property
    def stop(self) -> bool:
        return self.over or b"stop\n" in self._heard

    @property
    def keep(self) -> bool:
        return b"keep\n" in self._heard

    def listen(self, ended: int | None = None) -> bool:
        """Wait for a word, or for the process behind a descriptor; whether the latter came."""
        watched = [self._source] if ended is None else [self._source, ended]
        ready, _, _ = select.select(watched, [], [])
        if self._source in ready:
            data = os.read(self._source, 4096)
            self._heard += data
            self.over = not data
        return ended in ready


def main(arguments: list[str]) -> int:
    """Keep one service."""
    folder, log, _, *argv = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # The pipe is the one way to talk to us.
    become_subreaper()
    orders = Orders(sys.stdin.fileno())
    service = _start(argv, folder, log)
    ended = os.pidfd_open(service.pid)
    while not orders.stop and not orders.listen(ended):
        pass
    code = _end_service(service)
    _report(code, end_strays())
    while not orders.over:
        orders.listen()
    if not orders.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _start(argv: list[str], folder: str, log: str) -> subprocess.Popen[bytes]:
    us = os.getpid()

    def follow() -> None:
        """Be told to end when the keeper is killed."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != us:
            os._exit(1)

    with Path(log).open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=follow,
        )


def _end_service(service: subprocess.Popen[bytes]) -> int:
    """Ask it to leave, with its agents; its exit code."""
    service.terminate()
    try:
        return service.wait(SERVICE_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        return service.wait()


def end_strays() -> list[str]:
    """End whatever is still below us; what it was."""
    found = [f"{one.pid} {one.name}" for one in _strays()]
    _until_gone(lambda: _signal_all(signal.SIGTERM, once=True), STRAY_SECONDS)
    _until_gone(lambda: _signal_all(signal.SIGKILL), STRAY_SECONDS)
    return found


_asked: set[tuple[int, int]] = set()


def _signal_all(number: int, once: bool = False) -> None:
    for stray in _strays():
        if not (once and stray.key in _asked):
            _asked.add(stray.key)
            tree.send(stray, number)


def _until_gone(act: Callable[[], None], seconds: float) -> None:
    until = time.monotonic() + seconds
    while _strays() and time.monotonic() < until:
        act()
        time.sleep(_LOOK_SECONDS)


def _strays() -> list[tree.Process]:
    """Everything alive below us; those that ended are buried."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                break
        except ChildProcessError:
            break
    return tree.living(os.getpid())


def _report(code: int, left: list[str]) -> None:
    with suppress(OSError):  # A demo that was killed does not listen.
        os.write(sys.stdout.fileno(), json.dumps({"code": code, "left": left}).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
