"""The demo's end of the pipe to the keeper."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# The service gets 20 s, strays 6 s; after that the keeper itself must be broken.
PATIENCE = 40.0


@dataclass(frozen=True, slots=True)
class Report:
    """How the service ended, and what was still alive below it then."""

    code: int | None
    left: tuple[str, ...] = ()


class Kept:
    """A service under its keeper."""

    def __init__(
        self, folder: Path, log: Path, argv: Sequence[str], env: Mapping[str, str]
    ) -> None:
        keeper = [sys.executable, "-P", "-m", "hostler.cli.demo.keeper"]
        self._process = subprocess.Popen(
            [*keeper, str(folder), str(log), "--", *argv],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._ear, self._mouth = self._process.stdin, self._process.stdout
        self._report: Report | None = None

    @property
    def pid(self) -> int:
        """The keeper's number."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether the service has left, or the keeper was killed."""
        return self._report is not None or self._says_something(0)

    def stop(self) -> Report:
        """End the service and everything below it; the same report however often."""
        if self._report is None:
            self._tell("stop")
            self._report = self._read()
        return self._report

    def close(self, *, keep: bool = False) -> None:
        """End everything; the folder goes too, unless it is kept."""
        if keep:
            self._tell("keep")
        with suppress(OSError):
            self._ear.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._mouth.close()

    def _tell(self, word: str) -> None:
        with suppress(OSError):  # A keeper that was killed hears nothing; its end is seen.
            os.write(self._ear.fileno(), f"{word}\n".encode())

    def _says_something(self, seconds: float) -> bool:
        return bool(select.select([self._mouth], [], [], seconds)[0])

    def _read(self) -> Report:
        line = self._mouth.readline() if self._says_something(PATIENCE) else b""
        if not line:
            return Report(None)
        said = json.loads(line)
        return Report(said["code"], tuple(said["left"]))
