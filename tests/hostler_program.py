"""The real `hostler` command, and a quick way to run it: forked from a preloaded process."""

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
_PRELOADED = str(Path(__file__).with_name("preloaded_program.py"))
_LENGTH, _CODE = struct.Struct("!I"), struct.Struct("!i")
_TIMEOUT_SECONDS = 60.0
_request_lock = threading.Lock()


def run_hostler(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str = "",
    timeout: float = _TIMEOUT_SECONDS,
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
            _request(argv, cwd, env, [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()])
            theirs.close()
            code = _wait_for_end(ours, argv, timeout)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return subprocess.CompletedProcess(argv, code, *texts)


class Started:
    """A running command, with the part of `subprocess.Popen` that tests need.

    It gets the `terminal` if there is one; otherwise `stdout` has both of its output streams.
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
            _request(self.args, cwd, env, [*streams, theirs.fileno()])
        os.close(write)
        (self.pid,) = _LENGTH.unpack(_receive(self._line, _TIMEOUT_SECONDS))

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float = _TIMEOUT_SECONDS) -> int:
        if self.returncode is None:
            try:
                (self.returncode,) = _CODE.unpack(_receive(self._line, timeout))
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            self._line.close()
        return self.returncode

    def communicate(self, timeout: float = _TIMEOUT_SECONDS) -> tuple[str, None]:
        """Wait for its end and return the rest of its output."""
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


def _request(argv: list[str], cwd: Path, env: Mapping[str, str], descriptors: list[int]) -> None:
    text = json.dumps({"argv": argv, "cwd": str(cwd), "env": dict(env)}).encode()
    with _request_lock:
        control = _preloaded(os.getpid())
        socket.send_fds(control, [_LENGTH.pack(len(text))], descriptors)
        control.sendall(text)


def _wait_for_end(line: socket.socket, argv: list[str], timeout: float) -> int:
    """Return a command's exit code; kill it after `timeout` seconds."""
    (pid,) = _LENGTH.unpack(_receive(line, timeout))
    end = time.monotonic() + timeout
    try:
        code = _receive(line, max(end - time.monotonic(), 0))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(argv, timeout) from None
    return int(_CODE.unpack(code)[0])


def _receive(line: socket.socket, seconds: float) -> bytes:
    if not select.select([line], [], [], seconds)[0]:
        raise TimeoutError
    found = line.recv(_LENGTH.size)
    assert len(found) == _LENGTH.size, "the preloaded program ended; its message is on stderr"
    return found


@cache
def _preloaded(_pid: int) -> socket.socket:
    """Return the control socket of the preloaded process once it has imported the program."""
    control = start_preloading(_pid)
    assert control.recv(1) == b"!", "the program could not be imported"
    return control


@cache
def start_preloading(_pid: int) -> socket.socket:
    """Start the preloaded process of this one; it ends with us. A fork of ours starts its own."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen(
            [sys.executable, _PRELOADED, str(theirs.fileno())],
            # Fixed, so that no test that changed its environment shows in another's commands.
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    return ours
