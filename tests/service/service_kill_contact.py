"""What a test shares with its agents: gates that they cannot pass, and an ear for what they say."""

from __future__ import annotations

import fcntl
import os
import select
from pathlib import Path

from service_kill_processes import PATIENCE, gone

from hostler.shim import processes


class Gate:
    """A place that agents cannot pass while it is shut."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def shut(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


class Ear:
    """Hears words of living processes, each with its pid."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Open for both: the end never comes, and nobody waits for the other side.
        self._pipe = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._said: list[tuple[str, processes.Process | None]] = []
        self._rest = b""

    def hear(self, word: str) -> processes.Process:
        """Who says this word, or has said it and lives."""
        while True:
            for number, (said, process) in enumerate(self._said):
                if said == word and process is not None and not gone(process):
                    del self._said[number]
                    return process
            self._listen()

    def close(self) -> None:
        os.close(self._pipe)

    def _listen(self) -> None:
        ready, _, _ = select.select([self._pipe], [], [], PATIENCE)
        assert ready, f"no agent said anything within {PATIENCE} s"
        *lines, self._rest = (self._rest + os.read(self._pipe, 65536)).split(b"\n")
        for line in lines:
            word, pid = line.decode().split()
            self._said.append((word, processes.read_process(int(pid))))
