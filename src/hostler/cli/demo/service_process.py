"""The demo's service, run under a guard process that kills everything below it.

python -P -m hostler.cli.demo.service_process FOLDER LOG -- PROGRAM ARGUMENT…

The guard reads commands from standard input (docs/internals/demo.md). At end of file, which a
killed demo causes too, it stops everything and removes the folder.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hostler.shim import processes
from hostler.shim.agent import PR_SET_PDEATHSIG, become_subreaper

# The service gets 20 s and orphans 6 s; after this time the guard itself hangs.
GUARD_TIMEOUT_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class ServiceExit:
    """Exit code of the service, and the processes that it left behind."""

    code: int | None
    left: tuple[str, ...] = ()


class GuardedService:
    """The service and its guard process."""

    def __init__(
        self, folder: Path, log: Path, argv: Sequence[str], env: Mapping[str, str]
    ) -> None:
        guard = [sys.executable, "-P", "-m", "hostler.cli.demo.service_process"]
        self._process = subprocess.Popen(
            [*guard, str(folder), str(log), "--", *argv],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands, self._reports = self._process.stdin, self._process.stdout
        self._report: ServiceExit | None = None

    @property
    def pid(self) -> int:
        """The guard's process ID."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Return whether the service has exited or the guard was killed."""
        return self._report is not None or self._has_report(0)

    def stop(self) -> ServiceExit:
        """Stop the service and its descendants; return the same report on repeated calls."""
        if self._report is None:
            self._send("stop")
            self._report = self._read()
        return self._report

    def close(self, *, keep: bool = False) -> None:
        """Stop everything, and delete the folder unless `keep`."""
        if keep:
            self._send("keep")
        with suppress(OSError):
            self._commands.close()
        try:
            self._process.wait(GUARD_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reports.close()

    def _send(self, command: str) -> None:
        with suppress(OSError):  # The guard was killed; reading its report notices that.
            os.write(self._commands.fileno(), f"{command}\n".encode())

    def _has_report(self, seconds: float) -> bool:
        return bool(select.select([self._reports], [], [], seconds)[0])

    def _read(self) -> ServiceExit:
        line = self._reports.readline() if self._has_report(GUARD_TIMEOUT_SECONDS) else b""
        if not line:
            return ServiceExit(None)
        report = json.loads(line)
        return ServiceExit(report["code"], tuple(report["left"]))


SERVICE_SECONDS = 20.0
ORPHAN_SECONDS = 3.0
_CHECK_SECONDS = 0.05


class GuardCommands:
    """The commands that the demo has sent on the pipe."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._received = b""
        self.over = False

    @property
    def stop(self) -> bool:
        return self.over or b"stop\n" in self._received

    @property
    def keep(self) -> bool:
        return b"keep\n" in self._received

    def listen(self, ended: int | None = None) -> bool:
        """Wait for a command or the exit of a process; return whether the process exited."""
        watched = [self._source] if ended is None else [self._source, ended]
        ready, _, _ = select.select(watched, [], [])
        if self._source in ready:
            data = os.read(self._source, 4096)
            self._received += data
            self.over = not data
        return ended in ready


def main(arguments: list[str]) -> int:
    """Guard one service."""
    folder, log, _, *argv = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Only commands on the pipe end the guard.
    become_subreaper()
    orders = GuardCommands(sys.stdin.fileno())
    service = _start(argv, folder, log)
    ended = os.pidfd_open(service.pid)
    while not orders.stop and not orders.listen(ended):
        pass
    code = _end_service(service)
    _write_report(code, kill_orphans())
    while not orders.over:
        orders.listen()
    if not orders.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _start(argv: list[str], folder: str, log: str) -> subprocess.Popen[bytes]:
    guard = os.getpid()

    def end_with_guard() -> None:
        """Receive SIGTERM when the guard is killed."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != guard:
            os._exit(1)

    with Path(log).open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_guard,
        )


def _end_service(service: subprocess.Popen[bytes]) -> int:
    """Stop the service with its agents; return its exit code."""
    service.terminate()
    try:
        return service.wait(SERVICE_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        return service.wait()


def kill_orphans() -> list[str]:
    """Kill the remaining descendants; return their descriptions."""
    found = [f"{one.pid} {one.name}" for one in _living_orphans()]
    _until_gone(lambda: _signal_all(signal.SIGTERM, once=True), ORPHAN_SECONDS)
    _until_gone(lambda: _signal_all(signal.SIGKILL), ORPHAN_SECONDS)
    return found


_signalled: set[tuple[int, int]] = set()


def _signal_all(number: int, once: bool = False) -> None:
    for orphan in _living_orphans():
        if not (once and orphan.key in _signalled):
            _signalled.add(orphan.key)
            processes.send_signal(orphan, number)


def _until_gone(act: Callable[[], None], seconds: float) -> None:
    until = time.monotonic() + seconds
    while _living_orphans() and time.monotonic() < until:
        act()
        time.sleep(_CHECK_SECONDS)


def _living_orphans() -> list[processes.Process]:
    """Return the living descendants, after reaping exited children."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                break
        except ChildProcessError:
            break
    return processes.list_living_descendants(os.getpid())


def _write_report(code: int, left: list[str]) -> None:
    with suppress(OSError):  # The demo was killed.
        os.write(sys.stdout.fileno(), json.dumps({"code": code, "left": left}).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
