"""A running `hostler` whose three standard streams are apart, forked from the preloaded process."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from hostler_program import _LENGTH, HOSTLER, Started, _receive, _request

_TIMEOUT_SECONDS = 60.0


class Piped(Started):
    """A running command with binary pipes, as `subprocess.Popen` makes them.

    Output goes to the descriptor `stdout` instead, if there is one.
    """

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int | None = None,
    ) -> None:
        self.args = [HOSTLER, *map(str, words)]
        self.returncode: int | None = None
        self._line, theirs = socket.socketpair()
        (stdin, our_in), (our_out, out), (our_err, err) = os.pipe(), os.pipe(), os.pipe()
        self.stdin: IO[bytes] = os.fdopen(our_in, "wb")
        self.stdout: IO[bytes] = os.fdopen(our_out, "rb")
        self.stderr: IO[bytes] = os.fdopen(our_err, "rb")
        with theirs:
            given = out if stdout is None else stdout
            _request(self.args, cwd, env, [stdin, given, err, theirs.fileno()])
        for descriptor in (stdin, out, err):
            os.close(descriptor)
        (self.pid,) = _LENGTH.unpack(_receive(self._line, _TIMEOUT_SECONDS))

    def communicate(self, timeout: float = _TIMEOUT_SECONDS) -> tuple[bytes, bytes]:
        """Close its input, wait for its end and return the rest of its output."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        read: dict[IO[bytes], bytes] = {}
        streams = [self.stdout, self.stderr]
        readers = [Thread(target=lambda one=one: read.update({one: _rest(one)})) for one in streams]
        for reader in readers:
            reader.start()
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            for reader in readers:
                reader.join()
        return read[self.stdout], read[self.stderr]


def _rest(stream: IO[bytes]) -> bytes:
    if stream.closed:
        return b""
    with stream:
        return stream.read()
