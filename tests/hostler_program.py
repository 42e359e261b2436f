"""Where the real command is, and a quick way to run it: forked off a process that has it loaded."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

HOSTLER = str(Path(sys.executable).with_name("hostler"))
_WARM = str(Path(__file__).with_name("warm_program.py"))
_LENGTH = struct.Struct("!I")
_asking = threading.Lock()


def run_hostler(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str = "",
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` would."""
    argv = [HOSTLER, *words]
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin.encode())
        given.seek(0)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            _ask(argv, cwd, env, [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()])
            theirs.close()
            code = _end(ours, argv, timeout)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return subprocess.CompletedProcess(argv, code, *texts)


def _ask(argv: list[str], cwd: Path, env: Mapping[str, str], descriptors: list[int]) -> None:
    text = json.dumps({"argv": argv, "cwd": str(cwd), "env": dict(env)}).encode()
    with _asking:
        control = _warm(os.getpid())
        socket.send_fds(control, [_LENGTH.pack(len(text))], descriptors)
        control.sendall(text)


def _end(line: socket.socket, argv: list[str], timeout: float) -> int:
    """A command's exit code; one that takes too long is killed."""
    (pid,) = _LENGTH.unpack(_heard(line, timeout))
    end = time.monotonic() + timeout
    try:
        told = _heard(line, max(end - time.monotonic(), 0))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(argv, timeout) from None
    return int(struct.unpack("!i", told)[0])


def _heard(line: socket.socket, seconds: float) -> bytes:
    if not select.select([line], [], [], seconds)[0]:
        raise TimeoutError
    found = line.recv(_LENGTH.size)
    assert len(found) == _LENGTH.size, "the command's keeper is gone"
    return found


@cache
def _warm(_pid: int) -> socket.socket:
    """The loaded process of this one; it ends with us. A fork of ours has none."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen(
            [sys.executable, _WARM, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    assert ours.recv(1) == b"!", "the program could not be loaded"
    return ours
