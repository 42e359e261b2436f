"""The edge: ask a program something that it answers by itself, such as its version."""

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

from hostler.shim import sweep
from hostler.shim.spec import MARK

# Programs on Node take seconds to start on a busy machine.
PATIENCE_SECONDS = 30.0
LONGEST = 64 * 1024
_CHUNK = 64 * 1024
_READER_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program said. No code: its time ran out, or it could not be started."""

    code: int | None
    out: str = ""
    err: str = ""
    problem: str = ""


def ask(
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    seconds: float = PATIENCE_SECONDS,
) -> Answer:
    """Run a program in a folder, without input. Nothing that it starts outlives this call."""
    mark = uuid4().hex
    try:
        child = subprocess.Popen(
            argv,
            cwd=folder,
            env={**env, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Answer(None, problem=f"it cannot be started: {error}")
    out, err = _Ear(child.stdout), _Ear(child.stderr)
    try:
        in_time = _ends_within(child, seconds)
    finally:
        code = _end(child, mark)
    if not in_time:
        problem = f"it gave no answer within {seconds:.0f} s"
        return Answer(None, out.heard(), err.heard(), problem)
    return Answer(code, out.heard(), err.heard())


def _ends_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the program's end, and leave it unreaped: its pid must not pass on yet."""
    pidfd = os.pidfd_open(child.pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(pidfd)


def _end(child: subprocess.Popen[bytes], mark: str) -> int:
    """End the program and whatever it left, in its own session or by the mark that all inherit."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    with suppress(sweep.OutOfReach):
        sweep.end(mark, 0.0)
    return code


class _Ear:
    """Hears a pipe to its end, and keeps the beginning."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._listen, args=[pipe], daemon=True)
        self._thread.start()

    def heard(self) -> str:
        self._thread.join(_READER_SECONDS)
        return bytes(self._kept).decode("utf-8", "replace")

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                self._kept += chunk[: LONGEST - len(self._kept)]
