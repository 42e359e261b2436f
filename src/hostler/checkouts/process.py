"""Run a child process with limits on time and output, and end its whole process tree."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import psutil  # type: ignore[import-untyped]

GRACE_SECONDS = 3.0
# In the environment of a marked child and of all its descendants.
CHILD_VARIABLE = "HOSTLER_CHILD"
_CHUNK_BYTES = 65_536
# Repeat until no process ended during a scan; limited, as machines are busy.
_MAX_SCANS = 20


_owner = ""


def set_child_owner(owner: str) -> None:
    """Set the owner of children from now on, so that a later process can find orphans."""
    global _owner
    _owner = owner


def kill_orphaned_children(owner: str) -> int:
    """Kill marked children of a killed owner. Return how many there were."""
    found = [other for other in psutil.process_iter() if _has_owner(other, f"{owner}|")]
    for other in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            other.kill()
    psutil.wait_procs(found, GRACE_SECONDS)
    return len(found)


def _has_owner(other: psutil.Process, prefix: str) -> bool:
    try:
        return str(other.environ().get(CHILD_VARIABLE, "")).startswith(prefix)
    except (psutil.Error, OSError):
        return False


class Halted(BaseException):
    """The process is shutting down. Not an `Exception`: handlers of failures must not catch it."""


class _HaltSignal:
    """Closing the write end of a pipe wakes every thread that waits for a child.

    The pipe is created for the first child: one created at import would be shared with
    forked processes, where closing one copy wakes no thread.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._lock = threading.Lock()
        self._reader: int | None = None
        # Popping is atomic, so only one thread closes it. Signal handlers may call this.
        self._writers: list[int] = []

    def descriptor(self) -> int:
        """Return a descriptor that becomes readable when a halt is requested."""
        with self._lock:
            if self._reader is None:
                self._reader, writer = os.pipe()
                self._writers.append(writer)
        if self.is_requested:
            self._close_writer()
        return self._reader

    def request(self) -> None:
        self.is_requested = True
        self._close_writer()

    def close(self) -> None:
        self._close_writer()
        if self._reader is not None:
            os.close(self._reader)

    def _close_writer(self) -> None:
        with contextlib.suppress(IndexError):
            os.close(self._writers.pop())


_halt = _HaltSignal()


def halt_children() -> None:
    """End all children now and start no more: each `run_child` raises `Halted`."""
    _halt.request()


def allow_children() -> None:
    """Allow starting children again."""
    global _halt
    if _halt.is_requested:
        _halt.close()
        _halt = _HaltSignal()


class OutputSink(Protocol):
    """Receives a child's output and keeps a limited part of it."""

    def feed(self, chunk: bytes) -> None: ...


class HeadBuffer:
    """Keeps the start, and knows whether it was complete."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.data = bytearray()
        self.overflowed = False

    def feed(self, chunk: bytes) -> None:
        space = self.limit - len(self.data)
        self.data += chunk[:space]
        self.overflowed |= len(chunk) > space


class TailBuffer:
    """Keeps the end."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.data = bytearray()

    def feed(self, chunk: bytes) -> None:
        self.data += chunk
        if len(self.data) > 2 * self.limit:
            del self.data[: -self.limit]

    def text(self) -> str:
        return bytes(self.data[-self.limit :]).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """What to run, where, with which environment and for how long.

    A `mark` is for unknown programs: processes that they start in other sessions are
    found by it. Without one, only the child's own session is searched.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    seconds: float
    stdin: bytes = b""
    keep_open: tuple[int, ...] = ()
    mark: str = ""


def run_child(child: ChildProcess, out: OutputSink, err: OutputSink | None = None) -> int | None:
    """Run to the end. Return the exit code, or None on timeout.

    Without `err` both streams go to `out`. No process of the child's tree outlives this call.
    """
    halt, mark = _halt, f"{_owner}|{child.mark}" if child.mark else ""
    if halt.is_requested:
        raise Halted
    with _open_stdin(child.stdin) as stdin:
        process = subprocess.Popen(
            child.argv,
            cwd=child.cwd,
            env={**child.env, CHILD_VARIABLE: mark} if mark else dict(child.env),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if err is None else subprocess.PIPE,
            start_new_session=True,
            pass_fds=child.keep_open,
        )
    readers = [_start_reader(process.stdout, out), _start_reader(process.stderr, err)]
    try:
        code = _wait_for_exit(process, child.seconds, halt.descriptor())
    finally:
        _end_tree(process, mark)
        for reader in filter(None, readers):
            reader.join(GRACE_SECONDS)
    if halt.is_requested:
        # The exit code may be the result of our own signal.
        raise Halted
    return code


@contextlib.contextmanager
def _open_stdin(data: bytes) -> Iterator[IO[bytes] | int]:
    """Return the child's input as a file: a pipe could fill and block us."""
    if not data:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


def _start_reader(pipe: IO[bytes] | None, sink: OutputSink | None) -> threading.Thread | None:
    if pipe is None or sink is None:
        return None

    def read() -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
                sink.feed(chunk)

    thread = threading.Thread(target=read, name="child-output", daemon=True)
    thread.start()
    return thread


def _wait_for_exit(process: subprocess.Popen[bytes], seconds: float, halt: int) -> int | None:
    """Return the exit code, or None on timeout or shutdown."""
    if hasattr(os, "pidfd_open"):
        # `Popen.wait` with a timeout polls; a descriptor wakes us at once.
        descriptor = os.pidfd_open(process.pid)
        try:
            watch = select.poll()
            watch.register(descriptor, select.POLLIN)
            watch.register(halt, select.POLLIN)
            ended = descriptor in dict(watch.poll(seconds * 1000))
        finally:
            os.close(descriptor)
        return process.wait() if ended else None
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


def _end_tree(process: subprocess.Popen[bytes], mark: str) -> None:
    """End remaining processes: SIGTERM first, because git then removes its lock files."""
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        left = _tree_members(process, mark)
        if not left:
            break
        for member in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(number)
        psutil.wait_procs(left, GRACE_SECONDS)
    process.wait()


def _tree_members(process: subprocess.Popen[bytes], mark: str) -> list[psutil.Process]:
    """Return the living processes of a child's tree, also those in other sessions."""
    if not mark and not _has_group(process.pid):
        return []
    unrelated: set[psutil.Process] = set()
    for _ in range(_MAX_SCANS):
        others = [other for other in psutil.process_iter() if other not in unrelated]
        verdicts = {other: _is_member(other, process.pid, mark) for other in others}
        found = [other for other, belongs in verdicts.items() if belongs]
        # A process that forks and exits during the scan leaves a child that is not in the list.
        if found or None not in verdicts.values():
            return found
        # On a busy machine some process always exits. Skip those known to be unrelated.
        unrelated.update(other for other, belongs in verdicts.items() if belongs is False)
    return []


def _is_member(other: psutil.Process, leader: int, mark: str) -> bool | None:
    """Return whether a process belongs to the tree; None if it exited meanwhile."""
    try:
        if other.pid == os.getpid() or other.status() == psutil.STATUS_ZOMBIE:
            return False
        if os.getsid(other.pid) == leader:
            return True
        return bool(mark) and other.environ().get(CHILD_VARIABLE) == mark
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None
    except (psutil.Error, OSError):
        return False


def _has_group(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
