"""Run a program with a time limit and return its output. Nothing it starts outlives the call."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

from hostler.shim import orphans
from hostler.shim.spec import MARK_VARIABLE

# Node programs take seconds to start on a busy machine.
DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_OUTPUT_BYTES = 64 * 1024
_CHUNK = 64 * 1024
_READER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The output of a program. `code` is None after a timeout or a failed start."""

    code: int | None
    out: str = ""
    err: str = ""
    problem: str = ""


def query_program(
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> ProgramOutput:
    """Run a program in a folder, without input. All its processes are ended with it."""
    mark = uuid4().hex
    try:
        child = subprocess.Popen(
            argv,
            cwd=folder,
            env={**env, MARK_VARIABLE: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return ProgramOutput(None, problem=f"it cannot be started: {error}")
    out, err = _PipeReader(child.stdout), _PipeReader(child.stderr)
    try:
        in_time = _wait_for_exit(child, seconds)
    finally:
        code = _kill_all(child, mark)
    if not in_time:
        problem = f"it gave no answer within {seconds:.0f} s"
        return ProgramOutput(None, out.output(), err.output(), problem)
    return ProgramOutput(code, out.output(), err.output())


def _wait_for_exit(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the program's exit but do not reap it: its pid must not be reused yet."""
    pidfd = os.pidfd_open(child.pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(pidfd)


def _kill_all(child: subprocess.Popen[bytes], mark: str) -> int:
    """Kill the program and its descendants, by session or by the inherited mark."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    with suppress(orphans.RunUnreachable):
        orphans.end_marked_processes(mark, 0.0)
    return code


class _PipeReader:
    """Reads a pipe to its end, and keeps the start."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=[pipe], daemon=True)
        self._thread.start()

    def output(self) -> str:
        self._thread.join(_READER_SECONDS)
        return bytes(self._kept).decode("utf-8", "replace")

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                self._kept += chunk[: MAX_OUTPUT_BYTES - len(self._kept)]
