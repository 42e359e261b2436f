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
from contextlib import suppress
from functools import cache
from pathlib import Path

HOSTLER = str(Path(sys.executable).with_name("hostler"))
_WARM = str(Path(__file__).with_name("warm_program.py"))
_LENGTH, _CODE = struct.Struct("!I"), struct.Struct("!i")
_PATIENCE = 60.0
_asking = threading.Lock()


def run_hostler(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str = "",
    timeout: float = _PATIENCE,
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


class Started:
    """A command that goes on, with what tests want of `subprocess.Popen`.

    On a `terminal`, if it is given one; otherwise everything that it says is in `stdout`.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        terminal: int | None = None,
    ) -> None:
        self.args = [HOSTLER, *words]
        self.returncode: int | None = None
        self._line, theirs = socket.socketpair()
        read, write = os.pipe()
        self.stdout = os.fdopen(read)
        with theirs, Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), write, write] if terminal is None else [terminal] * 3
            _ask(self.args, cwd, env, [*streams, theirs.fileno()])
        os.close(write)
        (self.pid,) = _LENGTH.unpack(_heard(self._line, _PATIENCE))

    def poll(self) -> int | None:
        """How it ended, if it has."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float = _PATIENCE) -> int:
        if self.returncode is None:
            try:
                (self.returncode,) = _CODE.unpack(_heard(self._line, timeout))
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            self._line.close()
        return self.returncode

    def communicate(self, timeout: float = _PATIENCE) -> tuple[str, None]:
        """The rest of what it says, when it has ended."""
        watch = threading.Timer(timeout, self.kill)
        watch.start()
        try:
            said = "" if self.stdout.closed else self.stdout.read()
        finally:
            watch.cancel()
        self.stdout.close()
        self.wait()
        return said, None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


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
    return int(_CODE.unpack(told)[0])


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
