"""The other end of the notify socket."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

PATIENCE = 60.0


class FakeSystemd:
    """Hears what a service says, word by word."""

    def __init__(self) -> None:
        # Not in the folder of a test, whose path may be too long for the address of a socket.
        self._folder = tempfile.TemporaryDirectory(prefix="hostler-", dir="/tmp")
        self.path = Path(self._folder.name) / "notify"
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.settimeout(PATIENCE)
        self._line.bind(str(self.path))

    def close(self) -> None:
        self._line.close()
        self._folder.cleanup()

    def heard(self) -> list[str]:
        """The next message."""
        return self._line.recv(4096).decode().split("\n")

    def until(self, word: str) -> list[str]:
        """Messages up to the one that says this; that one."""
        while True:
            found = self.heard()
            if word in found:
                return found

    def silent(self) -> bool:
        """Whether nothing was said so far."""
        self._line.setblocking(False)
        try:
            self._line.recv(4096, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self._line.settimeout(PATIENCE)
        return False
