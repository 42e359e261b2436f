"""From bytes that an agent writes to whole lines, in bounded memory, from any offset on.

The offset only ever stands at the start of a line. Who stores it can read on after a crash
without knowing anything else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hostler.agents.plainfile import NotPlain, open_plain

# Agents print single lines of several hundred kilobytes; what is longer than this is cut.
LONGEST = 8 * 1024 * 1024
CHUNK = 256 * 1024


class Stream(StrEnum):
    """Where a line was written."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `cut`: its rest was thrown away."""

    stream: Stream
    text: str
    cut: bool = False


class Splitter:
    """Cuts bytes into lines, however they arrive."""

    def __init__(self, stream: Stream, offset: int = 0, longest: int = LONGEST) -> None:
        self._stream = stream
        self._longest = longest
        self._parts: list[bytes] = []
        self._held = 0
        self._line_bytes = 0
        self.offset = offset

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that these bytes complete. Consume it whole before feeding more."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            yield self._complete(1)
            start = end + 1
        self._keep(data[start:])

    def finish(self) -> Iterator[Line]:
        """The last line, where the agent ended without ending it."""
        if self._line_bytes:
            yield self._complete(0)

    def _keep(self, part: bytes) -> None:
        room = self._longest - self._held
        if part and room > 0:
            self._parts.append(part[:room])
            self._held += len(self._parts[-1])
        self._line_bytes += len(part)

    def _complete(self, ending: int) -> Line:
        data = b"".join(self._parts).removesuffix(b"\r")
        line = Line(self._stream, data.decode("utf-8", "replace"), self._line_bytes > self._longest)
        self.offset += self._line_bytes + ending
        self._parts, self._held, self._line_bytes = [], 0, 0
        return line


class Tail:
    """Reads a file that an agent is still writing."""

    def __init__(self, path: Path, stream: Stream, offset: int = 0, longest: int = LONGEST) -> None:
        self._path = path
        self._splitter = Splitter(stream, offset, longest)
        self._position = offset

    @property
    def offset(self) -> int:
        """Where the first line starts that was not handed out yet."""
        return self._splitter.offset

    def lines(self) -> Iterator[Line]:
        """Every line that is complete by now. A file that is missing or strange has none."""
        try:
            descriptor = open_plain(self._path)
        except NotPlain:
            return
        try:
            while data := os.pread(descriptor, CHUNK, self._position):
                self._position += len(data)
                yield from self._splitter.feed(data)
        finally:
            os.close(descriptor)

    def rest(self) -> Iterator[Line]:
        """All that is left, once nothing writes any more."""
        yield from self.lines()
        yield from self._splitter.finish()
