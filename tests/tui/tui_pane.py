"""A program in front of somebody: a terminal of its own, what it shows, and how it is left."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import suppress
from pathlib import Path

from hostler_program import HOSTLER, Started

PATIENCE = 60.0
COLOURS = {"TERM": "xterm-256color"}


class Pane:
    """One terminal; programs come and go on it."""

    def __init__(self, size: tuple[int, int] = (80, 24)) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.first = termios.tcgetattr(self._theirs)
        self.shown = ""

    def start(self, words: list[str], cwd: Path, env: dict[str, str]) -> Started:
        """A program that is loaded already, on this terminal."""
        return Started(words, cwd=cwd, env={**COLOURS, **env}, terminal=self._theirs)

    def start_as_its_own(
        self, words: list[str], cwd: Path, env: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        """A program to which this terminal belongs, as a shell would start it."""
        started = subprocess.Popen(
            ["setsid", "--ctty", HOSTLER, *words],
            cwd=cwd,
            env={**COLOURS, **env},
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
        )
        os.close(self._theirs)
        self._theirs = -1
        return started

    def until(self, text: str, after: int = 0) -> None:
        """Until it has shown a text."""
        end = time.monotonic() + PATIENCE
        while text not in self.shown[after:]:
            assert time.monotonic() < end, f"waited for {text!r}: {self.shown[-4000:]!r}"
            self.read(end - time.monotonic())

    def read(self, seconds: float = 0.0) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            with suppress(OSError):  # nobody is there any more
                self.shown += os.read(self._ours, 65536).decode(errors="replace")

    def type(self, keys: str) -> int:
        """Press keys; how much had been shown before."""
        os.write(self._ours, keys.encode())
        return len(self.shown)

    def ended(self, program: Started | subprocess.Popen[bytes]) -> int:
        """How it ends. A program that nobody reads would not."""
        end = time.monotonic() + PATIENCE
        while program.poll() is None:
            assert time.monotonic() < end, self.shown[-4000:]
            self.read(0.05)
        for _ in range(20):
            self.read()
        assert program.returncode is not None
        return program.returncode

    def is_as_it_was(self) -> bool:
        """Modes of the line, the first screen, and a cursor."""
        back = self.shown.rpartition("\x1b[?1049h")[2]
        here = "\x1b[?1049l" in back and "\x1b[?25h" in back
        return here and termios.tcgetattr(self._theirs) == self.first

    def hang_up(self) -> None:
        os.close(self._ours)
        self._ours = -1

    def close(self) -> None:
        for descriptor in (self._ours, self._theirs):
            if descriptor >= 0:
                os.close(descriptor)


def kill(program: Started | subprocess.Popen[bytes]) -> None:
    if program.poll() is None:
        program.send_signal(signal.SIGKILL)
        program.wait()
