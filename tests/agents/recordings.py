"""Recorded runs of real programs, and how each is to be judged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import LineSplitter, OutputLine, OutputStream
from hostler.agents.classify import Classification, classify_lines
from hostler.agents.verdict import EndedBy

FOLDER = Path(__file__).parent / "recorded"
CLIS = ("claude", "codex", "gemini", "opencode")
# Where the program loses the cause on its way: what is left to say, and why.
LOST_CAUSES = {
    "gemini/404": ("crash", "its last event and its exit code (1) do not have the status"),
    "gemini/sse_overloaded": ("server_error", "an error inside the stream is cut to no end at all"),
    "gemini/sse_ratelimit": ("server_error", "an error inside the stream is cut to no end at all"),
    "opencode/unknown_model": ("crash", "it says `Unexpected server error`, and no more"),
}


@dataclass(frozen=True)
class Recording:
    cli: str
    name: str
    exit_code: int | None
    ended_by: EndedBy
    expected: str
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return f"{self.cli}/{self.name}"

    @property
    def judged(self) -> str:
        """What it is judged as: as expected, but for causes that are lost."""
        return LOST_CAUSES.get(self.full_name, (self.expected, ""))[0]


@cache
def recordings() -> tuple[Recording, ...]:
    """All of them."""
    found = []
    for cli in CLIS:
        for name, row in json.loads((FOLDER / f"{cli}.json").read_text("utf-8")).items():
            streams = tuple(row["stdout"]), tuple(row["stderr"])
            by = EndedBy(row["ended_by"])
            found.append(Recording(cli, name, row["exit_code"], by, row["expected"], *streams))
    return tuple(found)


def recording(full_name: str) -> Recording:
    """One by its name."""
    return next(one for one in recordings() if one.full_name == full_name)


def by_itself() -> tuple[Recording, ...]:
    """Those that nobody ended, and that had a stream."""
    return tuple(one for one in recordings() if one.ended_by is EndedBy.EXIT and one.stdout)


def verdict_on(
    one: Recording, stdout: bytes | None = None, cuts: int = 0, stderr: bytes | None = None
) -> Classification:
    """The verdict; of other bytes than were recorded, or fed in pieces of some length."""
    whole = as_bytes(one.stdout) if stdout is None else stdout
    beside = as_bytes(one.stderr) if stderr is None else stderr
    lines = [*_split(whole, OutputStream.STDOUT, cuts), *_split(beside, OutputStream.STDERR)]
    return classify_lines(KINDS[one.cli], lines, one.exit_code, one.ended_by)


def as_bytes(lines: tuple[str, ...]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _split(data: bytes, stream: OutputStream, cuts: int = 0) -> list[OutputLine]:
    splitter, step = LineSplitter(stream), cuts or max(len(data), 1)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return [*found, *splitter.finish()]
